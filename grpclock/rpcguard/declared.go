package rpcguard

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
	"github.com/redlatch/redlatch/core/rule"
)

// declared are the rules in the .proto of a method, or what is wrong with them.
type declared struct {
	rules []*rule.Compiled
	fault error
}

// declared returns what the .proto of a method declares, nil for nothing. The
// cache has an entry for each method of the files: names that clients make up
// aren't in it.
func (l *Locks) declared(method string) *declared {
	if found, ok := l.options.Load(method); ok {
		return found.(*declared)
	}
	descriptor := l.descriptor(method)
	if descriptor == nil {
		return nil
	}
	found := readOptions(method, descriptor)
	l.options.Store(method, found)
	return found
}

// descriptor finds a method in the files, nil if it isn't there.
func (l *Locks) descriptor(method string) protoreflect.MethodDescriptor {
	service, name := split(method)
	found, err := l.config.Files.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return nil
	}
	descriptor, _ := found.(protoreflect.MethodDescriptor)
	return descriptor
}

func readOptions(method string, descriptor protoreflect.MethodDescriptor) *declared {
	rules, err := Declared(descriptor)
	if err == nil && len(rules) == 0 {
		return nil
	}
	for i := range rules {
		rules[i].Operation = method
	}
	var compiled []*rule.Compiled
	if err == nil {
		compiled, err = rule.JoinAll(rules...)
	}
	return &declared{rules: compiled, fault: err}
}

// Declared returns the rules of the options of a method, without their Operation: none
// if it has no option. The error lists everything that can't be read. A field that isn't
// known is a fault: it may be what keeps the lock right.
func Declared(method protoreflect.MethodDescriptor) ([]rule.Rule, error) {
	options, err := optionsOf(method)
	if err != nil {
		return nil, err
	}
	rules := make([]rule.Rule, len(options))
	var faults []error
	for i, option := range options {
		var wrong error
		if rules[i], wrong = readOption(option.ProtoReflect()); wrong != nil {
			faults = append(faults, parts(wrong)...)
		}
	}
	return rules, errors.Join(faults...)
}

// optionsOf returns the options of a method. A descriptor may have them as generated
// code does, as dynamic messages or as unknown fields, so they are written and read
// once more.
func optionsOf(method protoreflect.MethodDescriptor) ([]*lockpb.LockRule, error) {
	wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(method.Options())
	options := new(descriptorpb.MethodOptions)
	if err == nil {
		err = proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(wire, options)
	}
	if err != nil {
		return nil, fmt.Errorf("its options cannot be read: %w", err)
	}
	return proto.GetExtension(options, lockpb.E_Lock).([]*lockpb.LockRule), nil
}

// readOption makes a rule of a LockRule, whose fields are those of the table of rules.
func readOption(option protoreflect.Message) (rule.Rule, error) {
	var r rule.Rule
	var faults []error
	if len(option.GetUnknown()) > 0 {
		faults = append(faults, errors.New("a field of the option is newer than this program"))
	}
	option.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		value, err := stringOf(f, v)
		if err == nil && value != "" {
			err = r.Set(f.JSONName(), value)
		} else if err != nil {
			err = rule.Fault{Field: f.JSONName(), Reason: err.Error()}
		}
		if err != nil {
			faults = append(faults, err)
		}
		return true
	})
	return r, errors.Join(faults...)
}

// stringOf writes a value as rules spell it, empty for the default.
func stringOf(f protoreflect.FieldDescriptor, v protoreflect.Value) (string, error) {
	switch {
	case f.Enum() != nil:
		return choiceOf(f.Enum().Values(), v.Enum())
	case f.Message() != nil:
		return durationOf(v.Message())
	}
	return v.String(), nil
}

// choiceOf writes ON_BUSY_SKIP as "skip". The first value, ON_BUSY_UNSPECIFIED,
// is the default.
func choiceOf(values protoreflect.EnumValueDescriptors, number protoreflect.EnumNumber) (string, error) {
	value, first := values.ByNumber(number), values.Get(0)
	if value == nil {
		return "", fmt.Errorf("the value %d is newer than this program", number)
	}
	if value == first {
		return "", nil
	}
	prefix := strings.TrimSuffix(string(first.Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix)), nil
}

// durationOf writes a google.protobuf.Duration, generated or not.
func durationOf(m protoreflect.Message) (string, error) {
	fields := m.Descriptor().Fields()
	d := &durationpb.Duration{
		Seconds: m.Get(fields.ByName("seconds")).Int(),
		Nanos:   int32(m.Get(fields.ByName("nanos")).Int()), //nolint:gosec // it is an int32
	}
	return d.AsDuration().String(), d.CheckValid()
}

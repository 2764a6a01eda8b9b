package grpclock

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

// declared is the rule in the .proto of a method, or what is wrong with it.
type declared struct {
	rule  *rule.Compiled
	fault error
}

// declared returns what the .proto of a method declares, nil for nothing. The
// cache has an entry for each method of the files: names that clients make up
// aren't in it.
func (i *Interceptors) declared(method string) *declared {
	if found, ok := i.options.Load(method); ok {
		return found.(*declared)
	}
	descriptor := i.descriptor(method)
	if descriptor == nil {
		return nil
	}
	found := readOption(method, descriptor)
	i.options.Store(method, found)
	return found
}

// descriptor finds a method in the files, nil if it isn't there.
func (i *Interceptors) descriptor(method string) protoreflect.MethodDescriptor {
	service, name := split(method)
	found, err := i.files.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return nil
	}
	descriptor, _ := found.(protoreflect.MethodDescriptor)
	return descriptor
}

func readOption(method string, descriptor protoreflect.MethodDescriptor) *declared {
	option, err := optionOf(descriptor)
	if err == nil && option == nil {
		return nil
	}
	var compiled *rule.Compiled
	if err == nil {
		compiled, err = compileOption(option.ProtoReflect())
	}
	if err != nil {
		return &declared{fault: err}
	}
	compiled.Operation = method
	return &declared{rule: compiled}
}

// optionOf returns the option of a method, nil if it has none. A descriptor may
// have it as generated code does, as a dynamic message or as unknown fields, so
// the options are written and read once more.
func optionOf(method protoreflect.MethodDescriptor) (*lockpb.LockRule, error) {
	wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(method.Options())
	options := new(descriptorpb.MethodOptions)
	if err == nil {
		err = proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(wire, options)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("its options cannot be read: %w", err)
	case !proto.HasExtension(options, lockpb.E_Lock):
		return nil, nil //nolint:nilnil // no option is no error
	}
	return proto.GetExtension(options, lockpb.E_Lock).(*lockpb.LockRule), nil
}

// compileOption makes a rule of a LockRule, whose fields are those of the table
// of rules. The error lists everything that is wrong. A field that isn't known
// is a fault: it may be what keeps the lock right.
func compileOption(option protoreflect.Message) (*rule.Compiled, error) {
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
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return r.Compile()
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

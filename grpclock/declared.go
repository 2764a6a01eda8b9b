package grpclock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// The option of a method, as lock.proto has it. It is read by its name and
// the names of its fields, so that no generated code is needed here.
const (
	optionName   = "redlatch.lock.v1.lock"
	optionNumber = 234763699
)

// declared is the rule in the .proto of a method, or what is wrong with it.
type declared struct {
	rule  *rule.Compiled
	fault error
}

// declared returns what the .proto of a method declares, nil for nothing. The
// cache has an entry for each method of the files: names that clients make up
// are not in them.
func (d *Door) declared(method string) *declared {
	if found, ok := d.options.Load(method); ok {
		return found.(*declared)
	}
	descriptor := d.descriptor(method)
	if descriptor == nil {
		return nil
	}
	found := d.read(method, descriptor)
	d.options.Store(method, found)
	return found
}

// descriptor finds a method in the files, nil if it is not there.
func (d *Door) descriptor(method string) protoreflect.MethodDescriptor {
	service, name := split(method)
	found, err := d.files.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return nil
	}
	descriptor, _ := found.(protoreflect.MethodDescriptor)
	return descriptor
}

func (d *Door) read(method string, descriptor protoreflect.MethodDescriptor) *declared {
	option, err := d.option(descriptor)
	switch {
	case err != nil:
		return &declared{fault: err}
	case option == nil:
		return nil
	}
	r, err := ruleOf(option)
	if err != nil {
		return &declared{fault: err}
	}
	compiled, err := r.Compile()
	if err != nil {
		return &declared{fault: err}
	}
	compiled.Operation = method
	return &declared{rule: compiled}
}

var errNotLinked = fmt.Errorf("has the option (%s), which this program does not know: "+
	"import github.com/redlatch/redlatch/annotations/lockpb", optionName)

// option returns the option of a method as a message, nil if it has none.
// Where the descriptor was parsed without knowing the option, it is among the
// unknown fields.
func (d *Door) option(method protoreflect.MethodDescriptor) (protoreflect.Message, error) {
	options := method.Options().ProtoReflect()
	if option := extensionOf(options); option != nil || len(options.GetUnknown()) == 0 {
		return option, nil
	}
	extension := d.extension(method.ParentFile())
	if extension == nil {
		if hasField(options.GetUnknown(), optionNumber) {
			return nil, errNotLinked
		}
		return nil, nil //nolint:nilnil // no option is no error
	}
	known := new(protoregistry.Types)
	if err := known.RegisterExtension(extension); err != nil {
		return nil, err
	}
	again := new(descriptorpb.MethodOptions)
	if err := (proto.UnmarshalOptions{Resolver: known}).Unmarshal(options.GetUnknown(), again); err != nil {
		return nil, fmt.Errorf("the option (%s) cannot be read: %w", optionName, err)
	}
	return extensionOf(again.ProtoReflect()), nil
}

// extensionOf finds the option among the known fields.
func extensionOf(options protoreflect.Message) (option protoreflect.Message) {
	options.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.IsExtension() && f.FullName() == optionName && f.Message() != nil && !f.IsList() {
			option = v.Message()
		}
		return option == nil
	})
	return option
}

// extension finds the type of the option: in the program, or among the files
// that a method comes with.
func (d *Door) extension(file protoreflect.FileDescriptor) protoreflect.ExtensionType {
	if found, err := d.types.FindExtensionByName(optionName); err == nil {
		return found
	}
	if found, err := d.files.FindDescriptorByName(optionName); err == nil {
		if extension, ok := found.(protoreflect.ExtensionDescriptor); ok {
			return dynamicpb.NewExtensionType(extension)
		}
	}
	imports := file.Imports()
	for i := range imports.Len() {
		extensions := imports.Get(i).Extensions()
		for j := range extensions.Len() {
			if extensions.Get(j).FullName() == optionName {
				return dynamicpb.NewExtensionType(extensions.Get(j))
			}
		}
	}
	return nil
}

// hasField reports whether a field with that number is in the wire format.
func hasField(wire []byte, number protowire.Number) bool {
	for len(wire) > 0 {
		found, _, size := protowire.ConsumeField(wire)
		if size < 0 {
			return false
		}
		if found == number {
			return true
		}
		wire = wire[size:]
	}
	return false
}

// ruleOf reads a LockRule. The error lists every field that cannot be read.
// One that is not known is such a fault: it may be what keeps the lock right.
func ruleOf(option protoreflect.Message) (rule.Rule, error) {
	var r rule.Rule
	var faults []error
	if len(option.GetUnknown()) > 0 {
		faults = append(faults, errors.New("a field of the option is newer than this program"))
	}
	option.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if err := setField(&r, f, v); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", f.Name(), err))
		}
		return true
	})
	return r, errors.Join(faults...)
}

func setField(r *rule.Rule, f protoreflect.FieldDescriptor, v protoreflect.Value) (err error) {
	switch is := shapeOf(f); {
	case f.Name() == "key" && is == text:
		r.Key = v.String()
	case f.Name() == "name" && is == text:
		r.Name = v.String()
	case f.Name() == "wait" && is == duration:
		r.Wait, err = durationOf(v.Message())
	case f.Name() == "lease" && is == duration:
		r.Lease, err = durationOf(v.Message())
	case f.Name() == "permits" && is == number:
		if r.Permits = int(v.Int()); r.Permits == 0 {
			err = errors.New("0 is no number of permits, use 1 or more")
		}
	case f.Name() == "size" && is == number:
		r.Size = int(v.Int())
	case f.Name() == "mode" && is == choice:
		r.Mode, err = named(f, v, "MODE_", lock.ParseMode)
	case f.Name() == "on_busy" && is == choice:
		r.OnBusy, err = named(f, v, "ON_BUSY_", rule.ParseOnBusy)
	default:
		err = errors.New("this version of grpclock does not know the field")
	}
	return err
}

// shape is what a field may hold.
type shape int

const (
	other shape = iota
	text
	number
	choice
	duration
)

// shapeOf protects the reader from another lock.proto than ours.
func shapeOf(f protoreflect.FieldDescriptor) shape {
	switch {
	case f.IsList() || f.IsMap():
		return other
	case f.Kind() == protoreflect.StringKind:
		return text
	case f.Kind() == protoreflect.Int32Kind:
		return number
	case f.Kind() == protoreflect.EnumKind:
		return choice
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.Duration":
		return duration
	}
	return other
}

// durationOf reads a google.protobuf.Duration, generated or not.
func durationOf(m protoreflect.Message) (time.Duration, error) {
	wire, err := proto.Marshal(m.Interface())
	if err != nil {
		return 0, err
	}
	d := new(durationpb.Duration)
	if err := proto.Unmarshal(wire, d); err != nil {
		return 0, err
	}
	return d.AsDuration(), d.CheckValid()
}

// named parses the name of an enum's value, of which 0 is the default.
func named[T any](f protoreflect.FieldDescriptor, v protoreflect.Value, prefix string, parse func(string) (T, error)) (T, error) {
	value := f.Enum().Values().ByNumber(v.Enum())
	switch {
	case v.Enum() == 0:
		return parse("")
	case value == nil:
		var none T
		return none, fmt.Errorf("this version of grpclock does not know the value %d", v.Enum())
	}
	return parse(strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix)))
}

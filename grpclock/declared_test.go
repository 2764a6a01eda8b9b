package grpclock_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// filesWith returns the files of the test service, compiled anew, where the
// options of one method are those of the wire format.
func filesWith(t testing.TB, method string, wire []byte, resolver interface {
	protoregistry.ExtensionTypeResolver
},
) *protoregistry.Files {
	t.Helper()
	var all descriptorpb.FileDescriptorSet
	var add func(protoreflect.FileDescriptor)
	seen := make(map[string]bool)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		all.File = append(all.File, protodesc.ToFileDescriptorProto(f))
	}
	add(testpb.File_redlatch_test_v1_test_proto)
	for _, m := range all.GetFile()[len(all.GetFile())-1].GetService()[0].GetMethod() {
		if m.GetName() != method {
			continue
		}
		m.Options = new(descriptorpb.MethodOptions)
		if err := (proto.UnmarshalOptions{Resolver: resolver}).Unmarshal(wire, m.GetOptions()); err != nil {
			t.Fatal(err)
		}
	}
	files, err := protodesc.NewFiles(&all)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// wireOf is the option as it is in a compiled .proto.
func wireOf(t testing.TB, r *lockpb.LockRule) []byte {
	t.Helper()
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, lockpb.E_Lock, r)
	wire, err := proto.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// An option is found in whatever form a descriptor has it.
func TestOptionIsReadInEveryForm(t *testing.T) {
	wire := wireOf(t, &lockpb.LockRule{Key: proto.String("lock:form:<user_id>")})
	dynamic := new(protoregistry.Types)
	if err := dynamic.RegisterExtension(dynamicpb.NewExtensionType(lockpb.E_Lock.TypeDescriptor())); err != nil {
		t.Fatal(err)
	}
	behind := append(protowire.AppendVarint(protowire.AppendTag(nil, 50001, protowire.VarintType), 1), wire...)
	for name, test := range map[string]struct {
		wire  []byte
		types *protoregistry.Types
		want  string
	}{
		"of generated code":       {wire, protoregistry.GlobalTypes, "lock:form:7"},
		"dynamic":                 {wire, dynamic, "lock:form:7"},
		"unknown":                 {wire, new(protoregistry.Types), "lock:form:7"},
		"unknown, behind another": {behind, new(protoregistry.Types), "lock:form:7"},
		"another one":             {behind[:len(behind)-len(wire)], new(protoregistry.Types), ""},
		"no option at all":        {nil, protoregistry.GlobalTypes, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := grpclock.WithFiles(filesWith(t, "Plain", test.wire, test.types))
			answer, err := dial(t, &orders{}, guardtest.Guard(t), files).Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
			if err != nil || answer.GetKey() != test.want {
				t.Errorf("got %q, %v, want %q", answer.GetKey(), err, test.want)
			}
		})
	}
}

func TestOptionSaysAllThatARuleCan(t *testing.T) {
	for name, test := range map[string]struct {
		option *lockpb.LockRule
		want   rule.Rule
	}{
		"defaults": {&lockpb.LockRule{Key: proto.String("lock:x")}, rule.Rule{Key: "lock:x", Name: "lock:x"}},
		"defaults, spelled out": {&lockpb.LockRule{
			Key: proto.String("lock:x"), Wait: &durationpb.Duration{}, Lease: &durationpb.Duration{}, Name: proto.String(""),
			Mode: lockpb.Mode_MODE_UNSPECIFIED.Enum(), OnBusy: lockpb.OnBusy_ON_BUSY_UNSPECIFIED.Enum(), Overlaps: proto.Bool(false),
		}, rule.Rule{Key: "lock:x", Name: "lock:x"}},
		"all": {&lockpb.LockRule{
			Key: proto.String("lock:x"), Wait: durationpb.New(200 * time.Millisecond), Lease: durationpb.New(30 * time.Second),
			Mode: lockpb.Mode_MODE_SEMAPHORE.Enum(), OnBusy: lockpb.OnBusy_ON_BUSY_SKIP.Enum(),
			Name: proto.String("n"), Permits: proto.String("2/3"), Timeout: durationpb.New(time.Second),
			MaxWaiters: proto.Int32(50), MinHold: durationpb.New(10 * time.Second), MaxHold: durationpb.New(time.Minute), Overlaps: proto.Bool(true), Optional: proto.Bool(true),
		}, rule.Rule{
			Key: "lock:x", Wait: 200 * time.Millisecond, Lease: 30 * time.Second, Mode: lock.Semaphore,
			OnBusy: rule.Skip, Name: "n", Permits: 2, Size: 3, Timeout: time.Second, MaxWaiters: 50, MinHold: 10 * time.Second, MaxHold: time.Minute,
			Overlaps: true, Optional: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := grpclock.CompileOption(test.option.ProtoReflect())
			if err != nil || got != test.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, test.want)
			}
		})
	}
}

// dynamicOption is a message with a field for every field of a rule, and one
// more of the given name, whose values are those of the rules' string form.
func dynamicOption(t *testing.T, values map[string]string, extra ...string) protoreflect.Message {
	t.Helper()
	option := &descriptorpb.DescriptorProto{Name: proto.String("Option")}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("option.proto"), Syntax: proto.String("proto2"), MessageType: []*descriptorpb.DescriptorProto{option},
	}
	add := func(name string, kind rule.Kind, choices []string) {
		field := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), JsonName: proto.String(name), Number: proto.Int32(int32(len(option.GetField()) + 1)),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		switch kind {
		case rule.Count:
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
		case rule.Flag:
			field.Type = descriptorpb.FieldDescriptorProto_TYPE_BOOL.Enum()
		case rule.Choice:
			field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), proto.String("."+name+"Enum")
			enum := &descriptorpb.EnumDescriptorProto{Name: proto.String(name + "Enum")}
			for i, choice := range append([]string{"unspecified"}, choices...) {
				enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{
					Name: proto.String(strings.ToUpper(name + "_" + choice)), Number: proto.Int32(int32(i)),
				})
			}
			file.EnumType = append(file.EnumType, enum)
		}
		option.Field = append(option.Field, field)
	}
	for _, f := range rule.Fields() {
		add(f.Name, f.Kind, f.Choices)
	}
	for _, name := range extra {
		add(name, rule.String, nil)
	}
	descriptor, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(descriptor.Messages().Get(0))
	for name, value := range values {
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch f.Kind() {
		case protoreflect.Int32Kind:
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			m.Set(f, protoreflect.ValueOfInt32(int32(n)))
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(value == "true"))
		case protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(f.Enum().Values().ByName(protoreflect.Name(strings.ToUpper(name+"_"+value))).Number()))
		default:
			m.Set(f, protoreflect.ValueOfString(value))
		}
	}
	return m
}

// Nothing in the reader names a field: one that the table of rules gets is read
// the day lock.proto has it, and one that it doesn't have is refused.
func TestOptionIsReadThroughTheTableOfRules(t *testing.T) {
	values := map[string]string{
		"operation": "/a.B/C", "key": "lock:<x>", "mode": "semaphore", "permits": "2/3", "wait": "1s", "timeout": "2s", "maxWaiters": "4",
		"lease": "5s", "minHold": "4s", "maxHold": "6s", "onBusy": "skip", "name": "n", "overlaps": "true", "optional": "true",
	}
	var want rule.Rule
	for _, f := range rule.Fields() {
		if values[f.Name] == "" {
			t.Fatalf("the test has no value for %s", f.Name)
		}
		if err := want.Set(f.Name, values[f.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := grpclock.CompileOption(dynamicOption(t, values)); err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	values["patience"] = "1s"
	_, err := grpclock.CompileOption(dynamicOption(t, values, "patience"))
	if err == nil || !strings.Contains(err.Error(), `unknown field "patience"`) {
		t.Errorf("a field that no rule has: %v", err)
	}
}

// What can't be understood may be what keeps the lock right.
func TestOptionWithAFaultIsRefusedWhole(t *testing.T) {
	unknown := &lockpb.LockRule{Key: proto.String("lock:x")}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	mode, onBusy := lockpb.Mode(9), lockpb.OnBusy(9)
	otherType := protowire.AppendTag(nil, lockpb.E_Lock.TypeDescriptor().Number(), protowire.BytesType)
	otherType = protowire.AppendBytes(otherType, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1))
	for name, test := range map[string]struct {
		wire []byte
		want []string
	}{
		"no key":            {wireOf(t, &lockpb.LockRule{}), []string{"key: is missing"}},
		"newer field":       {wireOf(t, unknown), []string{"newer than this program"}},
		"of another type":   {otherType, []string{"newer than this program"}},
		"newer enum values": {wireOf(t, &lockpb.LockRule{Mode: &mode, OnBusy: &onBusy}), []string{"mode: the value 9 is newer", "onBusy: the value 9 is newer"}},
		"no permits":        {wireOf(t, &lockpb.LockRule{Key: proto.String("lock:x"), Permits: proto.String("2")}), []string{`permits: "2" does not say how many permits of how many`}},
		"no waiters":        {wireOf(t, &lockpb.LockRule{Key: proto.String("lock:x"), MaxWaiters: proto.Int32(0)}), []string{"maxWaiters: 0 is too few"}},
		"bad duration":      {wireOf(t, &lockpb.LockRule{Wait: &durationpb.Duration{Seconds: 1, Nanos: -1}}), []string{"wait:", "different signs"}},
		"faults of a rule": {
			wireOf(t, &lockpb.LockRule{Key: proto.String("lock:<a"), Wait: durationpb.New(-1), Lease: durationpb.New(1)}),
			[]string{`key: "lock:<a", column 6`, "wait: -1ns is negative", "lease: 1ns is too short"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, opt := guardtest.Guard(t), grpclock.WithFiles(filesWith(t, "Plain", test.wire, protoregistry.GlobalTypes))
			_, err := dial(t, &orders{}, g, opt).Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
			if reasonOf(err) != "LOCK_RULE_INVALID" {
				t.Errorf("the call: %v", err)
			}
			err = g.Validate()
			if err == nil {
				t.Fatal("Validate finds nothing")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), "grpclock: "+plain+": ") || !strings.Contains(err.Error(), want) {
					t.Errorf("Validate: %v, want %q", err, want)
				}
			}
		})
	}
}

// A descriptor may come from the network, and its options as bytes.
func TestOptionThatCannotBeReadIsAFault(t *testing.T) {
	broken := protowire.AppendTag(nil, lockpb.E_Lock.TypeDescriptor().Number(), protowire.BytesType)
	broken = protowire.AppendBytes(broken, []byte{0xff})
	g, opt := guardtest.Guard(t), grpclock.WithFiles(filesWith(t, "Plain", broken, new(protoregistry.Types)))
	_, err := dial(t, &orders{}, g, opt).Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
	if reasonOf(err) != "LOCK_RULE_INVALID" {
		t.Errorf("the call: %v", err)
	}
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "grpclock: "+plain+": its options cannot be read") {
		t.Errorf("Validate: %v", err)
	}
}

func TestCachesGrowWithMethodsAndNotWithCalls(t *testing.T) {
	d, err := grpclock.New(guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:<user_id>"}))
	if err != nil {
		t.Fatal(err)
	}
	d.Attach(registered(ordersService))
	intercept, _ := d.UnaryServerInterceptor(), d.StreamServerInterceptor()
	call := func(method string, req any) {
		t.Helper()
		if _, err := intercept(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: method}, pass); err != nil {
			t.Error(err)
		}
	}
	for i := range 100 {
		call(plain, &testpb.PlainRequest{UserId: "7"})
		call(place, &testpb.PlaceRequest{UserId: "7"})
		call("/redlatch.test.v1.FaultyService/"+strings.Repeat("x", i+1), nil)
		call("/x", nil)
	}
	if options, plans := d.Cached(); options != 6 || plans != 2 {
		t.Errorf("%d options, %d plans", options, plans)
	}
}

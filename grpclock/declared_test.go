package grpclock_test

import (
	"strconv"
	"strings"
	"testing"

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
	proto.SetExtension(options, lockpb.E_Lock, []*lockpb.LockRule{r})
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
				if !strings.Contains(err.Error(), "grpclock: "+strconv.Quote(plain)+": ") || !strings.Contains(err.Error(), want) {
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
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "grpclock: "+strconv.Quote(plain)+": its options cannot be read") {
		t.Errorf("Validate: %v", err)
	}
}

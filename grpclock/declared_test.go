package grpclock_test

import (
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

// server is a registry of methods that nobody serves.
type server map[string]grpc.ServiceInfo

func (s server) GetServiceInfo() map[string]grpc.ServiceInfo { return s }

// serving is a server of one unary method.
func serving(fullMethod string) server {
	service, method, _ := strings.Cut(fullMethod[1:], "/")
	return server{service: {Methods: []grpc.MethodInfo{{Name: method}}}}
}

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

func TestOptionNumberIsThatOfTheProto(t *testing.T) {
	if lockpb.E_Lock.TypeDescriptor().Number() != grpclock.OptionNumber {
		t.Error("they differ")
	}
}

// An option is found in whatever form a program has it.
func TestOptionIsReadInEveryForm(t *testing.T) {
	wire := wireOf(t, &lockpb.LockRule{Key: proto.String("lock:form:<user_id>")})
	none := new(protoregistry.Types)
	dynamic := new(protoregistry.Types)
	if err := dynamic.RegisterExtension(dynamicpb.NewExtensionType(lockpb.E_Lock.TypeDescriptor())); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		files *protoregistry.Files
		opts  []grpclock.Option
	}{
		"of generated code":                         {filesWith(t, "Plain", wire, protoregistry.GlobalTypes), nil},
		"dynamic":                                   {filesWith(t, "Plain", wire, dynamic), nil},
		"unknown, the program knows its type":       {filesWith(t, "Plain", wire, none), nil},
		"unknown, its type comes with the files":    {filesWith(t, "Plain", wire, none), []grpclock.Option{grpclock.WithoutTypes()}},
		"dynamic, and unknown to the whole program": {filesWith(t, "Plain", wire, dynamic), []grpclock.Option{grpclock.WithoutTypes()}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append(test.opts, grpclock.WithFiles(test.files))
			answer, err := dial(t, &orders{}, guardtest.Guard(t), opts...).Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
			if err != nil || answer.GetKey() != "lock:form:7" {
				t.Errorf("got %q, %v", answer.GetKey(), err)
			}
		})
	}
}

// A file that imports lock.proto as a placeholder has the option, but nobody
// knows how to read it. The method must not run without its lock.
func TestOptionThatNobodyCanReadIsNoPass(t *testing.T) {
	wire := wireOf(t, &lockpb.LockRule{Key: proto.String("lock:x")})
	for name, test := range map[string]struct {
		wire   []byte
		locked bool
	}{
		"the option":       {wire, true},
		"behind another":   {append(protowire.AppendVarint(protowire.AppendTag(nil, 50001, protowire.VarintType), 1), wire...), true},
		"another one":      {protowire.AppendVarint(protowire.AppendTag(nil, 50001, protowire.VarintType), 1), false},
		"no option at all": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			file := &descriptorpb.FileDescriptorProto{
				Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"),
				MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
				Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{{
					Name: proto.String("Do"), InputType: proto.String(".a.M"), OutputType: proto.String(".a.M"),
					Options: new(descriptorpb.MethodOptions),
				}}}},
			}
			unknowing := proto.UnmarshalOptions{Resolver: new(protoregistry.Types)}
			if err := unknowing.Unmarshal(test.wire, file.GetService()[0].GetMethod()[0].GetOptions()); err != nil {
				t.Fatal(err)
			}
			files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}})
			if err != nil {
				t.Fatal(err)
			}
			d, err := grpclock.Build(guardtest.Guard(t), grpclock.WithFiles(files), grpclock.WithoutTypes())
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.UnaryServer(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.S/Do"}, pass)
			if got := reasonOf(err); (got == "LOCK_RULE_INVALID") != test.locked {
				t.Errorf("got %v", err)
			}
			err = d.Validate(serving("/a.S/Do"))
			if locked := err != nil && strings.Contains(err.Error(), "import github.com/redlatch/redlatch/annotations/lockpb"); locked != test.locked {
				t.Errorf("Validate: %v", err)
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
			Mode: lockpb.Mode_MODE_UNSPECIFIED.Enum(), OnBusy: lockpb.OnBusy_ON_BUSY_UNSPECIFIED.Enum(),
		}, rule.Rule{Key: "lock:x", Name: "lock:x"}},
		"all": {&lockpb.LockRule{
			Key: proto.String("lock:x"), Wait: durationpb.New(200 * time.Millisecond), Lease: durationpb.New(30 * time.Second),
			Mode: lockpb.Mode_MODE_SEMAPHORE.Enum(), OnBusy: lockpb.OnBusy_ON_BUSY_SKIP.Enum(),
			Name: proto.String("n"), Permits: proto.Int32(2), Size: proto.Int32(3),
		}, rule.Rule{
			Key: "lock:x", Wait: 200 * time.Millisecond, Lease: 30 * time.Second, Mode: lock.Semaphore,
			OnBusy: rule.Skip, Name: "n", Permits: 2, Size: 3,
		}},
		"exclusive": {&lockpb.LockRule{Key: proto.String("lock:x"), Mode: lockpb.Mode_MODE_EXCLUSIVE.Enum()}, rule.Rule{Key: "lock:x", Name: "lock:x"}},
		"fair":      {&lockpb.LockRule{Key: proto.String("lock:x"), Mode: lockpb.Mode_MODE_FAIR.Enum()}, rule.Rule{Key: "lock:x", Name: "lock:x", Mode: lock.Fair}},
		"read":      {&lockpb.LockRule{Key: proto.String("lock:x"), Mode: lockpb.Mode_MODE_READ.Enum()}, rule.Rule{Key: "lock:x", Name: "lock:x", Mode: lock.Read}},
		"write":     {&lockpb.LockRule{Key: proto.String("lock:x"), Mode: lockpb.Mode_MODE_WRITE.Enum()}, rule.Rule{Key: "lock:x", Name: "lock:x", Mode: lock.Write}},
		"reject":    {&lockpb.LockRule{Key: proto.String("lock:x"), OnBusy: lockpb.OnBusy_ON_BUSY_REJECT.Enum()}, rule.Rule{Key: "lock:x", Name: "lock:x"}},
	} {
		for form, types := range map[string]*protoregistry.Types{"generated": protoregistry.GlobalTypes, "unknown": new(protoregistry.Types)} {
			t.Run(name+", "+form, func(t *testing.T) {
				test.want.Operation = plain
				files := filesWith(t, "Plain", wireOf(t, test.option), types)
				opts := []grpclock.Option{grpclock.WithFiles(files)}
				if form == "unknown" {
					opts = append(opts, grpclock.WithoutTypes())
				}
				d, err := grpclock.Build(guardtest.Guard(t), opts...)
				if err != nil {
					t.Fatal(err)
				}
				got, err := d.Declared(plain)
				if err != nil || got != test.want {
					t.Errorf("got  %+v, %v\nwant %+v", got, err, test.want)
				}
			})
		}
	}
}

// What cannot be understood may be what keeps the lock right.
func TestOptionWithAFaultIsRefusedWhole(t *testing.T) {
	unknown := &lockpb.LockRule{Key: proto.String("lock:x")}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	mode, onBusy := lockpb.Mode(9), lockpb.OnBusy(9)
	for name, test := range map[string]struct {
		option *lockpb.LockRule
		want   []string
	}{
		"no key":            {&lockpb.LockRule{}, []string{"key: is missing"}},
		"newer field":       {unknown, []string{"newer than this program"}},
		"newer enum values": {&lockpb.LockRule{Mode: &mode, OnBusy: &onBusy}, []string{"mode: this version", "on_busy: this version", "value 9"}},
		"no permits":        {&lockpb.LockRule{Key: proto.String("lock:x"), Permits: proto.Int32(0)}, []string{"permits: 0"}},
		"bad duration":      {&lockpb.LockRule{Wait: &durationpb.Duration{Seconds: 1, Nanos: -1}}, []string{"wait:", "different signs"}},
		"faults of a rule": {
			&lockpb.LockRule{Key: proto.String("lock:<a"), Wait: durationpb.New(-1), Lease: durationpb.New(1)},
			[]string{`key: "lock:<a", column 6`, "wait: -1ns is negative", "lease: 1ns is too short"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			opt := grpclock.WithFiles(filesWith(t, "Plain", wireOf(t, test.option), protoregistry.GlobalTypes))
			_, err := dial(t, &orders{}, guardtest.Guard(t), opt).Plain(t.Context(), &testpb.PlainRequest{UserId: "7"})
			if reasonOf(err) != "LOCK_RULE_INVALID" {
				t.Errorf("the call: %v", err)
			}
			err = grpclock.Validate(serving(plain), guardtest.Guard(t), opt)
			if err == nil {
				t.Fatal("Validate finds nothing")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate: %v, want %q", err, want)
				}
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if strings.Count(line, plain) != 1 {
					t.Errorf("the method is not named once in %q", line)
				}
			}
		})
	}
}

// Another lock.proto than ours must neither panic nor be half understood.
func TestOptionOfAnotherShapeIsRefused(t *testing.T) {
	file := protodesc.ToFileDescriptorProto(lockpb.File_redlatch_lock_v1_lock_proto)
	for _, f := range file.GetMessageType()[0].GetField() {
		if f.GetName() == "key" {
			f.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}
		if f.GetName() == "permits" {
			f.Label, f.Proto3Optional, f.OneofIndex = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), nil, nil
		}
	}
	// The oneof that made permits optional is the last but one.
	one := file.GetMessageType()[0]
	one.OneofDecl = append(one.GetOneofDecl()[:6:6], one.GetOneofDecl()[7:]...)
	for _, f := range one.GetField() {
		if f.GetName() == "size" {
			f.OneofIndex = proto.Int32(6)
		}
	}
	other, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	types := new(protoregistry.Types)
	if err := types.RegisterExtension(dynamicpb.NewExtensionType(other.Extensions().Get(0))); err != nil {
		t.Fatal(err)
	}
	wire := wireOf(t, &lockpb.LockRule{Key: proto.String("lock:x"), Permits: proto.Int32(1)})
	err = grpclock.Validate(serving(plain), guardtest.Guard(t), grpclock.WithFiles(filesWith(t, "Plain", wire, types)))
	for _, want := range []string{"key: this version of grpclock does not know the field", "permits: this version"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestCachesGrowWithMethodsAndNotWithCalls(t *testing.T) {
	d, err := grpclock.Build(guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:<user_id>"}))
	if err != nil {
		t.Fatal(err)
	}
	call := func(method string, req any) {
		t.Helper()
		if _, err := d.UnaryServer(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: method}, pass); err != nil {
			t.Error(err)
		}
	}
	for i := range 100 {
		call(plain, &testpb.PlainRequest{UserId: "7"})
		call(place, &testpb.PlaceRequest{UserId: "7"})
		call("/redlatch.test.v1.FaultyService/"+strings.Repeat("x", i+1), nil)
		call("/x", nil)
	}
	if options, plans := d.Cached(); options != 1 || plans != 2 {
		t.Errorf("%d options, %d plans", options, plans)
	}
}

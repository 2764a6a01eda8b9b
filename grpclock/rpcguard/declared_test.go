package rpcguard_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

const (
	place = "/redlatch.test.v1.OrderService/Place"
	plain = "/redlatch.test.v1.OrderService/Plain"
)

func TestOptionSaysAllThatARuleCan(t *testing.T) {
	for name, test := range map[string]struct {
		option *lockpb.LockRule
		want   rule.Rule
	}{
		"defaults": {&lockpb.LockRule{Key: proto.String("lock:x")}, rule.Rule{Key: "lock:x"}},
		"defaults, spelled out": {&lockpb.LockRule{
			Key: proto.String("lock:x"), Wait: &durationpb.Duration{}, Lease: &durationpb.Duration{}, Name: proto.String(""),
			Mode: lockpb.Mode_MODE_UNSPECIFIED.Enum(), OnBusy: lockpb.OnBusy_ON_BUSY_UNSPECIFIED.Enum(), Overlaps: proto.Bool(false),
		}, rule.Rule{Key: "lock:x"}},
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
			got, err := rpcguard.ReadOption(test.option.ProtoReflect())
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
		"lease": "5s", "minHold": "4s", "maxHold": "6s", "onBusy": "skip", "name": "n", "overlaps": "true", "also": "true", "optional": "true",
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
	if got, err := rpcguard.ReadOption(dynamicOption(t, values)); err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	values["patience"] = "1s"
	_, err := rpcguard.ReadOption(dynamicOption(t, values, "patience"))
	if err == nil || !strings.Contains(err.Error(), `unknown field "patience"`) {
		t.Errorf("a field that no rule has: %v", err)
	}
}

func TestCachesGrowWithMethodsAndNotWithCalls(t *testing.T) {
	locks, err := rpcguard.New(guardtest.Guard(t, rule.Rule{Operation: plain, Key: "lock:<user_id>"}), rpcguard.Config{By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	call := func(method string, req any) {
		t.Helper()
		_, leave, refused := locks.Enter(t.Context(), rpcguard.Request{Method: method, Message: req})
		if refused == nil {
			refused = leave()
		}
		if refused != nil {
			t.Error(refused)
		}
	}
	for i := range 100 {
		call(plain, &testpb.PlainRequest{UserId: "7"})
		call(place, &testpb.PlaceRequest{UserId: "7"})
		call("/redlatch.test.v1.FaultyService/"+strings.Repeat("x", i+1), nil)
		call("/x", nil)
	}
	if options, plans := locks.Cached(); options != 1 || plans != 2 {
		t.Errorf("%d options, %d plans", options, plans)
	}
}

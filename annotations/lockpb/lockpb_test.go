package lockpb_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
	"github.com/redlatch/redlatch/core/rule"
)

// The name and the number are in compiled descriptors everywhere: to change
// either breaks every user.
func TestOptionKeepsItsNameAndNumber(t *testing.T) {
	option := lockpb.E_Lock.TypeDescriptor()
	if name := option.FullName(); name != "redlatch.lock.v1.lock" {
		t.Errorf("name is %s", name)
	}
	number := option.Number()
	if number != 234763699 {
		t.Errorf("number is %d", number)
	}
	if !(&descriptorpb.MethodOptions{}).ProtoReflect().Descriptor().ExtensionRanges().Has(number) {
		t.Errorf("MethodOptions have no extension %d", number)
	}
	if number >= 50000 && number <= 99999 {
		t.Errorf("%d may be an organization's own", number)
	}
}

func TestUnsetIsNotZero(t *testing.T) {
	for name, test := range map[string]struct {
		rule *lockpb.LockRule
		want bool
	}{
		"unset": {&lockpb.LockRule{Key: proto.String("lock:x")}, false},
		"zero": {&lockpb.LockRule{
			Key: proto.String("lock:x"), Wait: &durationpb.Duration{}, Lease: &durationpb.Duration{},
			Mode: lockpb.Mode_MODE_UNSPECIFIED.Enum(), OnBusy: lockpb.OnBusy_ON_BUSY_UNSPECIFIED.Enum(),
			Name: proto.String(""), Permits: proto.String(""), Timeout: &durationpb.Duration{}, MaxWaiters: proto.Int32(0),
			MinHold: &durationpb.Duration{}, MaxHold: &durationpb.Duration{}, Overlaps: proto.Bool(false), Optional: proto.Bool(false),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			options := &descriptorpb.MethodOptions{}
			proto.SetExtension(options, lockpb.E_Lock, []*lockpb.LockRule{test.rule})
			wire, err := proto.Marshal(options)
			if err != nil {
				t.Fatal(err)
			}
			read := &descriptorpb.MethodOptions{}
			if err := proto.Unmarshal(wire, read); err != nil {
				t.Fatal(err)
			}
			got := proto.GetExtension(read, lockpb.E_Lock).([]*lockpb.LockRule)[0].ProtoReflect()
			fields := got.Descriptor().Fields()
			for i := range fields.Len() {
				if field := fields.Get(i); field.Name() != "key" && got.Has(field) != test.want {
					t.Errorf("%s is there: %v, want %v", field.Name(), !test.want, test.want)
				}
			}
		})
	}
}

// The option can say what every other form of a rule can, in a type of its kind.
func TestOptionHasTheFieldsOfARule(t *testing.T) {
	fields := (&lockpb.LockRule{}).ProtoReflect().Descriptor().Fields()
	kinds := map[rule.Kind]protoreflect.Kind{
		rule.String: protoreflect.StringKind, rule.Permits: protoreflect.StringKind, rule.Count: protoreflect.Int32Kind,
		rule.Flag: protoreflect.BoolKind, rule.Choice: protoreflect.EnumKind, rule.Duration: protoreflect.MessageKind,
	}
	known := 0
	for _, f := range rule.Fields() {
		if f.Name == "operation" || f.Name == "also" { // the method has the option, once or several times
			continue
		}
		known++
		field := fields.ByJSONName(f.Name)
		if field == nil {
			t.Errorf("lock.proto has no field %s", f.Name)
			continue
		}
		if want, ok := kinds[f.Kind]; !ok || field.Kind() != want || !field.HasPresence() {
			t.Errorf("%s is %v in lock.proto", f.Name, field.Kind())
		}
		if f.Kind == rule.Duration && field.Message().FullName() != "google.protobuf.Duration" {
			t.Errorf("%s is %v in lock.proto", f.Name, field.Message().FullName())
		}
		if f.Kind == rule.Choice {
			compareChoices(t, f, field)
		}
	}
	if fields.Len() != known {
		t.Errorf("lock.proto has %d fields, a rule %d", fields.Len(), known)
	}
}

func compareChoices(t *testing.T, f rule.Field, field protoreflect.FieldDescriptor) {
	t.Helper()
	values := field.Enum().Values()
	prefix := strings.ToUpper(string(field.Name())) + "_"
	got := make([]string, 0, values.Len())
	for i := range values.Len() {
		got = append(got, strings.ToLower(strings.TrimPrefix(string(values.Get(i).Name()), prefix)))
	}
	if want := append([]string{"unspecified"}, f.Choices...); !slices.Equal(got, want) {
		t.Errorf("%s has %q in lock.proto, and %q in a rule", f.Name, got, want)
	}
}

func TestFilesHoldTheProtoAtItsImportPath(t *testing.T) {
	text, err := fs.ReadFile(lockpb.Files, lockpb.File_redlatch_lock_v1_lock_proto.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"package redlatch.lock.v1;", "LockRule lock = 234763699;"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is not in the file", part)
		}
	}
}

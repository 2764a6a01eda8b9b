package lockpb_test

import (
	"io/fs"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
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
			Name: proto.String(""), Permits: proto.Int32(0), Size: proto.Int32(0),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			options := &descriptorpb.MethodOptions{}
			proto.SetExtension(options, lockpb.E_Lock, test.rule)
			wire, err := proto.Marshal(options)
			if err != nil {
				t.Fatal(err)
			}
			read := &descriptorpb.MethodOptions{}
			if err := proto.Unmarshal(wire, read); err != nil {
				t.Fatal(err)
			}
			got := proto.GetExtension(read, lockpb.E_Lock).(*lockpb.LockRule).ProtoReflect()
			fields := got.Descriptor().Fields()
			for i := range fields.Len() {
				if field := fields.Get(i); field.Name() != "key" && got.Has(field) != test.want {
					t.Errorf("%s is there: %v, want %v", field.Name(), !test.want, test.want)
				}
			}
		})
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

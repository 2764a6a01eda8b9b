package lockpb_test

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/redlatch/redlatch/annotations/lockpb"
)

// A tool reads the locks of a method from the method's options. In a program they
// are those of a descriptor: method.Options().
func Example() {
	options := &descriptorpb.MethodOptions{}
	proto.SetExtension(options, lockpb.E_Lock, []*lockpb.LockRule{{
		Key:  proto.String("lock:order:<user_id>"),
		Wait: durationpb.New(200 * time.Millisecond),
	}})

	for _, declared := range proto.GetExtension(options, lockpb.E_Lock).([]*lockpb.LockRule) {
		fmt.Println(declared.GetKey(), declared.GetWait().AsDuration())
	}
	// Output: lock:order:<user_id> 200ms
}

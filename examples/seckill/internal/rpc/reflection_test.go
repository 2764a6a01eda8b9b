package rpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/redlatch/redlatch/core/memstore"
)

// describe fetches a service from the server, and all that it is made of, as
// grpcurl does.
func describe(t *testing.T, s *shop, service string) protoreflect.ServiceDescriptor {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(s.connection).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) [][]byte {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetFileDescriptorResponse().GetFileDescriptorProto()
	}
	set := make(map[string]*descriptorpb.FileDescriptorProto)
	var add func(files [][]byte)
	add = func(files [][]byte) {
		for _, text := range files {
			file := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(text, file); err != nil {
				t.Fatal(err)
			}
			set[file.GetName()] = file
			for _, name := range file.GetDependency() {
				if set[name] == nil {
					add(ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}}))
				}
			}
		}
	}
	add(ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}}))
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	files := new(descriptorpb.FileDescriptorSet)
	for _, file := range set {
		files.File = append(files.File, file)
	}
	registry, err := protodesc.NewFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	found, err := registry.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		t.Fatal(err)
	}
	return found.(protoreflect.ServiceDescriptor)
}

// A client that has nothing but the address, as grpcurl.
func TestAClientWithoutGeneratedCodeOrdersThroughReflection(t *testing.T) {
	const name = "seckill.v1.SeckillService"
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 1, -1, 1)
	service := describe(t, s, name)
	call := func(method, request string) (*dynamicpb.Message, error) {
		d := service.Methods().ByName(protoreflect.Name(method))
		in, out := dynamicpb.NewMessage(d.Input()), dynamicpb.NewMessage(d.Output())
		if err := protojson.Unmarshal([]byte(request), in); err != nil {
			t.Fatal(err)
		}
		return out, s.connection.Invoke(t.Context(), "/"+name+"/"+method, in, out)
	}
	placed, err := call("PlaceOrder", `{"voucherId":"`+id+`","userId":"alice"}`)
	if err != nil {
		t.Fatal(err)
	}
	order := placed.Get(placed.Descriptor().Fields().ByName("order")).Message()
	if user := order.Get(order.Descriptor().Fields().ByName("user_id")).String(); user != "alice" {
		t.Errorf("ordered for %q", user)
	}
	_, err = call("PlaceOrder", `{"voucherId":"`+id+`","userId":"bob"}`)
	wantStatus(t, "none left", err, codes.FailedPrecondition, "SOLD_OUT")

	// Its lock is there to read as well.
	options := service.Methods().ByName("PlaceOrder").Options()
	text, err := proto.MarshalOptions{}.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	known := &descriptorpb.MethodOptions{}
	if err := (proto.UnmarshalOptions{Resolver: protoregistry.GlobalTypes}).Unmarshal(text, known); err != nil {
		t.Fatal(err)
	}
	if got := protojson.Format(known); !containsAll(got, "redlatch.lock.v1.lock", "lock:order:<user_id>") {
		t.Errorf("options %s", got)
	}
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

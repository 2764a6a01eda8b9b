package main

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/redlatch/redlatch/grpclock/internal/testpb"
)

// request is what protoc asks of the plugin for the file of the tests, which change alters.
func request(change func(*descriptorpb.FileDescriptorProto)) *pluginpb.CodeGeneratorRequest {
	req := &pluginpb.CodeGeneratorRequest{}
	known := make(map[string]bool)
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if known[f.Path()] {
			return
		}
		known[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		req.ProtoFile = append(req.ProtoFile, protodesc.ToFileDescriptorProto(f))
	}
	add(testpb.File_redlatch_test_v1_test_proto)
	file := req.ProtoFile[len(req.ProtoFile)-1]
	change(file)
	req.FileToGenerate = []string{file.GetName()}
	return req
}

// only leaves one service in a file.
func only(service string) func(*descriptorpb.FileDescriptorProto) {
	return func(f *descriptorpb.FileDescriptorProto) {
		for _, s := range f.Service {
			if s.GetName() == service {
				f.Service = []*descriptorpb.ServiceDescriptorProto{s}
				return
			}
		}
	}
}

func respond(t *testing.T, req *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	t.Helper()
	p, err := protogen.Options{}.New(req)
	if err != nil {
		t.Fatal(err)
	}
	err = run(p)
	return p.Response(), err
}

func TestTheDecoratorIsTheOneInTheRepository(t *testing.T) {
	want, err := os.ReadFile("../../internal/testpb/test_grpclock.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*descriptorpb.FileDescriptorProto){
		"proto3": func(*descriptorpb.FileDescriptorProto) {},
		"an edition": func(f *descriptorpb.FileDescriptorProto) {
			f.Syntax, f.Edition = proto.String("editions"), descriptorpb.Edition_EDITION_2023.Enum()
			for _, m := range f.MessageType {
				for _, field := range m.Field {
					field.Proto3Optional = nil // which editions don't have
				}
			}
		},
	} {
		resp, err := respond(t, request(func(f *descriptorpb.FileDescriptorProto) { only("OrderService")(f); change(f) }))
		if err != nil || len(resp.GetFile()) != 1 || resp.GetFile()[0].GetContent() != string(want) {
			t.Errorf("%s: %v, %v", name, err, resp)
		}
	}
}

// protoc refuses a plugin that doesn't say what it supports.
func TestThePluginSupportsTheEditionsThatProtocGenGoGRPCDoes(t *testing.T) {
	resp, _ := respond(t, request(only("OrderService")))
	editions := uint64(pluginpb.CodeGeneratorResponse_FEATURE_SUPPORTS_EDITIONS)
	if resp.GetSupportedFeatures()&editions == 0 || resp.GetMaximumEdition() < int32(descriptorpb.Edition_EDITION_2024) {
		t.Errorf("features %b, editions up to %d", resp.GetSupportedFeatures(), resp.GetMaximumEdition())
	}
}

func TestAnOptionThatIsNoRuleIsAnErrorOfThePlugin(t *testing.T) {
	_, err := respond(t, request(only("FaultyService")))
	for _, want := range []string{
		`redlatch.test.v1.FaultyService.Typo: template "lock:order:<usr_id>", column 12: <usr_id>: redlatch.test.v1.TypoRequest has no field "usr_id", did you mean "user_id"?`,
		"redlatch.test.v1.FaultyService.Grammar: ",
		"redlatch.test.v1.FaultyService.Reserved: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

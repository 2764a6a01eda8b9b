package rpcguard_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/grpclock/internal/testpb"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

func everything() *testpb.Everything {
	return &testpb.Everything{
		Text: "a:b", MaybeText: proto.String("x"), Flag: true, MaybeFlag: proto.Bool(false),
		Int32: -1, Sint32: -2, Sfixed32: -3, Int64: -4, Sint64: -5, Sfixed64: -1 << 63,
		Uint32: 1, Fixed32: 2, Uint64: 1<<64 - 1, Fixed64: 4, MaybeInt64: proto.Int64(0),
		Tier:    testpb.Tier_TIER_GOLD,
		Buyer:   &testpb.Buyer{Id: "b", Sponsor: &testpb.Buyer{Sponsor: &testpb.Buyer{Address: &testpb.Address{Zip: "1010"}}}},
		Wrapped: wrapperspb.String("w"),
		Choice:  &testpb.Everything_NumberChoice{NumberChoice: 9},
	}
}

// both are a message of generated code, and the same as a dynamic one.
func both(t *testing.T, message proto.Message) []protoreflect.Message {
	t.Helper()
	wire, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	dynamic := dynamicpb.NewMessage(message.ProtoReflect().Descriptor())
	if err := proto.Unmarshal(wire, dynamic); err != nil {
		t.Fatal(err)
	}
	return []protoreflect.Message{message.ProtoReflect(), dynamic}
}

func TestPathReadsAField(t *testing.T) {
	full, empty := everything(), &testpb.Everything{}
	const missing = "missing"
	for path, want := range map[string]struct{ full, empty, zero string }{
		"text":                              {"a:b", "", ""},
		"maybe_text":                        {"x", missing, missing},
		"maybeText":                         {"x", missing, missing},
		"flag":                              {"true", "false", "false"},
		"maybe_flag":                        {"false", missing, missing},
		"int32":                             {"-1", missing, "0"},
		"sint32":                            {"-2", missing, "0"},
		"sfixed32":                          {"-3", missing, "0"},
		"int64":                             {"-4", missing, "0"},
		"sint64":                            {"-5", missing, "0"},
		"sfixed64":                          {"-9223372036854775808", missing, "0"},
		"uint32":                            {"1", missing, "0"},
		"fixed32":                           {"2", missing, "0"},
		"uint64":                            {"18446744073709551615", missing, "0"},
		"fixed64":                           {"4", missing, "0"},
		"maybe_int64":                       {missing, missing, missing},
		"tier":                              {"1", missing, "0"},
		"buyer.id":                          {"b", missing, missing},
		"buyer.sponsor.id":                  {"", missing, missing},
		"buyer.sponsor.sponsor.address.zip": {"1010", missing, missing},
		"buyer.sponsor.sponsor.sponsor.id":  {missing, missing, missing},
		"wrapped.value":                     {"w", missing, missing},
		"text_choice":                       {missing, missing, missing},
		"numberChoice":                      {"9", missing, missing},
	} {
		t.Run(path, func(t *testing.T) {
			p, err := rpcguard.CompilePath(full.ProtoReflect().Descriptor(), path)
			if err != nil {
				t.Fatal(err)
			}
			check := func(message proto.Message, zero bool, want string) {
				t.Helper()
				for _, m := range both(t, message) {
					got, err := p.Read(m, zero)
					if errors.Is(err, key.ErrMissing) {
						got = missing
					} else if err != nil {
						t.Fatal(err)
					}
					if got != want {
						t.Errorf("got %q, want %q (zero: %v, %T)", got, want, zero, m)
					}
				}
			}
			check(full, false, want.full)
			check(empty, false, want.empty)
			check(empty, true, want.zero)
		})
	}
}

func TestZeroOfAnOptionalFieldIsAValueWithTheFilterOnly(t *testing.T) {
	p, err := rpcguard.CompilePath((&testpb.Everything{}).ProtoReflect().Descriptor(), "maybe_int64")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range both(t, &testpb.Everything{MaybeInt64: proto.Int64(0)}) {
		if got, err := p.Read(m, true); got != "0" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := p.Read(m, false); !errors.Is(err, key.ErrMissing) {
			t.Errorf("without the filter: %v", err)
		}
	}
}

func TestPathNamesItsFieldAsTheProtoDoes(t *testing.T) {
	p, err := rpcguard.CompilePath((&testpb.Everything{}).ProtoReflect().Descriptor(), "numberChoice")
	if err != nil || p.String() != "number_choice" {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestPathIsRefused(t *testing.T) {
	for path, want := range map[string]string{
		"":                 `no field ""`,
		"nobody":           `redlatch.test.v1.Everything has no field "nobody"`,
		"buyer.nobody":     `redlatch.test.v1.Buyer has no field "nobody"`,
		"buyer..id":        `no field ""`,
		"buyer.":           `no field ""`,
		"text.x":           "is string, which has no fields",
		"tier.x":           "is enum, which has no fields",
		"buyer":            "is a message, name one of its fields",
		"buyer.address":    "is a message, name one of its fields",
		"wrapped":          "is a message, name one of its fields",
		"float":            "is of type float",
		"double":           "is of type double",
		"bytes":            "is of type bytes",
		"names":            "is a list, which is more than one value",
		"labels":           "is a map, which is more than one value",
		"labels.value":     "is a map, which has no fields",
		"free.fields.key":  "is a map, which has no fields",
		"ambiguous":        `has a field "ambiguous", and another one that is called so in JSON`,
		"Text":             "has no field",
		"buyer.Sponsor.id": "has no field",
	} {
		t.Run(path, func(t *testing.T) {
			_, err := rpcguard.CompilePath((&testpb.Everything{}).ProtoReflect().Descriptor(), path)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestPathThroughWhatHasNoFieldsIsRefused(t *testing.T) {
	field := func(name, of string, number int32, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &number, Label: &label, TypeName: &of, Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("nothing.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Nothing")}, {
			Name: proto.String("Outer"), Field: []*descriptorpb.FieldDescriptorProto{
				field("nothing", ".Nothing", 1, descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL),
				field("list", ".Outer", 2, descriptorpb.FieldDescriptorProto_LABEL_REPEATED),
			},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nothing":      "Outer.nothing is a message, name one of its fields, of which it has none",
		"list.nothing": "Outer.list is a list, which has no fields to name",
	} {
		if _, err := rpcguard.CompilePath(file.Messages().ByName("Outer"), path); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

func TestReadingATextAllocatesNothing(t *testing.T) {
	message := everything()
	for _, path := range []string{"text", "buyer.id", "buyer.sponsor.sponsor.address.zip"} {
		p, err := rpcguard.CompilePath(message.ProtoReflect().Descriptor(), path)
		if err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := p.Read(message.ProtoReflect(), false); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", path, allocs)
		}
	}
}

// Whatever a path is, it is refused, or can be read from every message; and
// what is read doesn't depend on how the path is spelled.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"text", "buyer.id", "buyer.sponsor.sponsor.address.zip", "numberChoice", "labels.value", "free.fields", "a..b", "tier"} {
		f.Add(seed, []byte{0x0a, 0x01, 'x'})
	}
	descriptor := (&testpb.Everything{}).ProtoReflect().Descriptor()
	f.Fuzz(func(t *testing.T, text string, wire []byte) {
		p, err := rpcguard.CompilePath(descriptor, text)
		if err != nil {
			return
		}
		again, err := rpcguard.CompilePath(descriptor, p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q is %q, which is %v, %v", text, p, again, err)
		}
		generated, dynamic := &testpb.Everything{}, dynamicpb.NewMessage(descriptor)
		if proto.Unmarshal(wire, generated) != nil || proto.Unmarshal(wire, dynamic) != nil {
			return
		}
		for _, zero := range []bool{false, true} {
			one, errOne := p.Read(generated.ProtoReflect(), zero)
			two, errTwo := again.Read(dynamic, zero)
			if one != two || !errors.Is(errTwo, errOne) || errOne != nil && !errors.Is(errOne, key.ErrMissing) {
				t.Errorf("%q: generated %q, %v; dynamic %q, %v", text, one, errOne, two, errTwo)
			}
		}
	})
}

func BenchmarkPath(b *testing.B) {
	message := everything()
	for _, path := range []string{"text", "buyer.sponsor.sponsor.address.zip", "int64"} {
		b.Run(path, func(b *testing.B) {
			p, err := rpcguard.CompilePath(message.ProtoReflect().Descriptor(), path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Read(message.ProtoReflect(), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package rpcguard

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// path is the way to a value in a message. It is immutable.
type path struct {
	parents []protoreflect.FieldDescriptor // messages
	leaf    protoreflect.FieldDescriptor
}

// compilePath finds the field that names, such as "buyer.id", lead to in messages
// of a type.
func compilePath(in protoreflect.MessageDescriptor, names string) (*path, error) {
	p := &path{}
	for name := range strings.SplitSeq(names, ".") {
		if p.leaf != nil {
			if err := checkParent(p.leaf); err != nil {
				return nil, err
			}
			p.parents = append(p.parents, p.leaf)
			in = p.leaf.Message()
		}
		var err error
		if p.leaf, err = field(in, name); err != nil {
			return nil, err
		}
	}
	return p, checkLeaf(p.leaf, names)
}

// field finds a field by either of its names.
func field(in protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	byName, byJSON := in.Fields().ByName(protoreflect.Name(name)), in.Fields().ByJSONName(name)
	switch {
	case byName == nil && byJSON == nil:
		return nil, fmt.Errorf("%s has no field %q%s", in.FullName(), name, rule.DidYouMean(name, fieldNames(in)))
	case byName == nil:
		return byJSON, nil
	case byJSON != nil && byJSON != byName:
		return nil, fmt.Errorf("%s has a field %q, and another one that is called so in JSON", in.FullName(), name)
	}
	return byName, nil
}

func fieldNames(in protoreflect.MessageDescriptor) []string {
	names := make([]string, 0, 2*in.Fields().Len())
	for i := range in.Fields().Len() {
		names = append(names, string(in.Fields().Get(i).Name()), in.Fields().Get(i).JSONName())
	}
	return names
}

// example is a variable for a field of a message that names lead to.
func example(in protoreflect.MessageDescriptor, names string) string {
	if in.Fields().Len() == 0 {
		return ", of which it has none"
	}
	return fmt.Sprintf(", such as <req.%s.%s>", names, in.Fields().Get(0).Name())
}

func checkParent(f protoreflect.FieldDescriptor) error {
	if f.Message() == nil || f.IsList() || f.IsMap() {
		return fmt.Errorf("%s is %s, which has no fields to name", f.FullName(), kindOf(f))
	}
	return nil
}

func checkLeaf(f protoreflect.FieldDescriptor, names string) error {
	if f.IsList() || f.IsMap() {
		return fmt.Errorf("%s is %s, which is more than one value", f.FullName(), kindOf(f))
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return fmt.Errorf("%s is %s, name one of its fields%s", f.FullName(), kindOf(f), example(f.Message(), names))
	case protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.BytesKind:
		return fmt.Errorf("%s is of type %s, and a key field must be a string, integer, bool or enum", f.FullName(), kindOf(f))
	}
	return nil
}

// kindOf names the type of a field for people.
func kindOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "a map"
	case f.IsList():
		return "a list"
	case f.Message() != nil:
		return "a message"
	}
	return f.Kind().String()
}

// String returns the path as the .proto names it.
func (p *path) String() string {
	var names strings.Builder
	for _, parent := range p.parents {
		names.WriteString(string(parent.Name()) + ".")
	}
	names.WriteString(string(p.leaf.Name()))
	return names.String()
}

// read returns the value of the field in a message of the type that the path
// was compiled for. A number that is 0 is missing, unless zero says that it is
// a value.
func (p *path) read(m protoreflect.Message, zero bool) (string, error) {
	for _, parent := range p.parents {
		if !m.Has(parent) {
			return "", key.ErrMissing
		}
		m = m.Get(parent).Message()
	}
	if p.leaf.HasPresence() && !m.Has(p.leaf) {
		return "", key.ErrMissing
	}
	value := m.Get(p.leaf)
	if p.leaf.Kind() == protoreflect.StringKind {
		return value.String(), nil // an empty one is refused by every template
	}
	text, err := guard.KeyPart(value.Interface())
	if text == "0" && !zero {
		return "", key.ErrMissing
	}
	return text, err
}

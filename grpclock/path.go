package grpclock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/key"
)

// path leads to a value within a message. It never changes.
type path struct {
	parents []protoreflect.FieldDescriptor // messages
	leaf    protoreflect.FieldDescriptor
}

// compilePath finds the field that text, "buyer.id", names in messages of a
// type. The error says what is wrong with it, without naming text.
func compilePath(in protoreflect.MessageDescriptor, text string) (*path, error) {
	p := &path{}
	for name := range strings.SplitSeq(text, ".") {
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
	return p, checkLeaf(p.leaf)
}

// field finds a field by either of its names.
func field(in protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	byName, byJSON := in.Fields().ByName(protoreflect.Name(name)), in.Fields().ByJSONName(name)
	switch {
	case byName == nil && byJSON == nil:
		return nil, fmt.Errorf("%s has no field %q", in.FullName(), name)
	case byName == nil:
		return byJSON, nil
	case byJSON != nil && byJSON != byName:
		return nil, fmt.Errorf("%s has a field %q, and another one that is called so in JSON", in.FullName(), name)
	}
	return byName, nil
}

func checkParent(f protoreflect.FieldDescriptor) error {
	if f.Message() == nil || f.IsList() || f.IsMap() {
		return fmt.Errorf("%s is %s, which has no fields to name", f.FullName(), kindOf(f))
	}
	return nil
}

func checkLeaf(f protoreflect.FieldDescriptor) error {
	if f.IsList() || f.IsMap() {
		return fmt.Errorf("%s is %s, which is more than one value", f.FullName(), kindOf(f))
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return fmt.Errorf("%s is %s, name one of its fields", f.FullName(), kindOf(f))
	case protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.BytesKind:
		return fmt.Errorf("%s is of type %s, and keys are made of texts, integers, booleans and enums", f.FullName(), kindOf(f))
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
	var text strings.Builder
	for _, parent := range p.parents {
		text.WriteString(string(parent.Name()) + ".")
	}
	text.WriteString(string(p.leaf.Name()))
	return text.String()
}

// errLeaf is for a kind that checkLeaf lets pass and read does not know.
var errLeaf = errors.New("unreadable kind of field")

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
	switch value := m.Get(p.leaf); p.leaf.Kind() {
	case protoreflect.StringKind:
		return value.String(), nil // an empty one is refused by every template
	case protoreflect.BoolKind:
		return strconv.FormatBool(value.Bool()), nil
	case protoreflect.EnumKind:
		return integer(int64(value.Enum()), zero)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return integer(value.Int(), zero)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n := value.Uint(); n != 0 {
			return strconv.FormatUint(n, 10), nil
		}
		return integer(0, zero)
	}
	return "", errLeaf
}

func integer(n int64, zero bool) (string, error) {
	if n == 0 && !zero {
		return "", key.ErrMissing
	}
	return strconv.FormatInt(n, 10), nil
}

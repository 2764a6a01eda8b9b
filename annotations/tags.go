package annotations

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// tagName is the struct tag that names a field for templates.
const tagName = "lock"

// VarsOf finds values in the fields of a request that have a tag:
//
//	type PlaceRequest struct {
//		UserID  int64   `lock:"userId"`
//		Voucher *string `lock:"voucherId"` // nil: no value, the call fails
//		Client  Client  // its tags count as well
//	}
//
// for <userId>, or <req.userId>. v is a struct or a pointer to one, or a
// [key.Vars] with the values by name. Structs without a tag are searched, if
// they are exported or embedded, behind pointers too; `lock:"-"` leaves one out,
// and a struct inside one of the same type isn't searched again. The tag of a
// blank field is a lock, see [CompileFor].
//
// Values are written as [guard.KeyPart] does. A nil pointer is a missing value.
//
// A type whose tags can't be used (an unexported or unsupported field, a name
// that is there twice or that no template can have) fails every call with an
// error that wraps [guard.ErrUnresolvable]; [Method.Check] says so before the
// first. What is found out about a type is kept.
func VarsOf(v any) Vars {
	switch vars := v.(type) {
	case key.Vars:
		return named(vars)
	case map[string]string:
		return named(vars)
	}
	value := reflect.ValueOf(v)
	t, err := tagsOf(value)
	return func(v Var) (string, error) {
		if err != nil {
			return "", err
		}
		field, ok := t.find(v)
		if !ok {
			return "", fmt.Errorf("%w: no field of %v has the tag %s:%q", guard.ErrUnresolvable, t.of, tagName, v.Name)
		}
		return field.text(value)
	}
}

func named(vars key.Vars) Vars {
	return func(v Var) (string, error) {
		value, ok := vars[v.String()]
		if !ok {
			return "", key.ErrMissing
		}
		return value, nil
	}
}

// Check reports whether [VarsOf] such a value finds all variables of m's
// directives. The value itself doesn't matter, its type does:
//
//	err := place.Check(PlaceRequest{})
//
// The error wraps [rule.ErrInvalid] and lists everything that is wrong.
func (m *Method) Check(v any) error {
	t, err := tagsOf(reflect.ValueOf(v))
	if err != nil {
		return fmt.Errorf("annotations: %s: %w: %w", m.operation, rule.ErrInvalid, err)
	}
	var wrong []error
	if len(t.locks) > 0 && !m.declared {
		wrong = append(wrong, fmt.Errorf("annotations: %s: %w: %v declares a lock itself, which the method does not take: use CompileFor",
			m.operation, rule.ErrInvalid, t.of))
	}
	for _, r := range m.rules {
		wrong = append(wrong, m.unnamed(t, "template", r)...)
	}
	return errors.Join(wrong...)
}

// unnamed returns a fault for each variable of r, which people know as what, that no
// field has the tag of.
func (m *Method) unnamed(t *tags, what string, r *rule.Compiled) []error {
	var wrong []error
	report := func(column int, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("annotations: %s: %w: %s %q, column %d: "+format,
			append([]any{m.operation, rule.ErrInvalid, what, r.Key, column}, args...)...))
	}
	if reason, column := rule.Unbracketed(r.Template, func(name string) bool { _, ok := t.fields[name]; return ok }); reason != "" {
		report(column, "%s", reason)
	}
	for _, v := range r.Template.Vars() {
		if _, ok := t.find(v); !ok {
			report(v.Column, "no field of %v has the tag %s:%q", t.of, tagName, v)
		}
	}
	return wrong
}

// tags are the fields of a type by their names in templates, and the locks that
// it declares.
type tags struct {
	of     reflect.Type
	fields map[string]field
	locks  []string
}

// field is the way to a value: the indexes of struct fields.
type field struct {
	name string // as Go code has it
	path []int
}

var known sync.Map // reflect.Type to func() (*tags, error)

// tagsOf returns the tags of the value's type, without its pointers.
func tagsOf(v reflect.Value) (*tags, error) {
	if !v.IsValid() {
		return nil, fmt.Errorf("%w: the value is nil", guard.ErrUnresolvable)
	}
	t := v.Type()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	read, ok := known.Load(t)
	if !ok {
		read, _ = known.LoadOrStore(t, sync.OnceValues(func() (*tags, error) { return readTags(t) }))
	}
	return read.(func() (*tags, error))()
}

func (t *tags) find(v Var) (field, bool) {
	if v.Source != "" && v.Source != "req" {
		return field{}, false
	}
	f, ok := t.fields[v.Name]
	return f, ok
}

// maxTags bounds what is wrong with a type, and how many locks it declares: one struct
// may be reached in more ways than can be counted.
const maxTags = 100

// readTags reads the tags of a type. The error lists everything that is wrong, up to
// maxTags.
func readTags(t reflect.Type) (*tags, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: %v is no struct, and no key.Vars", guard.ErrUnresolvable, t)
	}
	r := tagReader{tags: tags{of: t, fields: make(map[string]field)}, inside: make(map[reflect.Type]bool)}
	r.read(t, "", nil)
	if len(r.locks) > maxTags {
		r.wrong = append(r.wrong, fmt.Errorf("%v declares more than %d locks", t, maxTags))
	}
	if err := errors.Join(r.wrong...); err != nil {
		return nil, fmt.Errorf("%w: %w", guard.ErrUnresolvable, err)
	}
	return &r.tags, nil
}

type tagReader struct {
	tags
	wrong  []error
	inside map[reflect.Type]bool // the structs that contain the one that is read
}

// read reads the tags of a struct.
func (r *tagReader) read(t reflect.Type, name string, path []int) {
	if len(r.wrong)+len(r.locks) > maxTags || !r.leads(t, make(map[reflect.Type]bool)) {
		return
	}
	r.inside[t] = true
	defer delete(r.inside, t)
	for i := range t.NumField() {
		f := t.Field(i)
		fieldPath := append(slices.Clip(path), i)
		fieldName := strings.TrimPrefix(name+"."+f.Name, ".")
		tag, tagged := f.Tag.Lookup(tagName)
		switch {
		case tag == "-":
		case tagged && f.Name == "_":
			r.locks = append(r.locks, tag)
		case tagged:
			r.add(tag, f, field{fieldName, fieldPath})
		default:
			if inner, ok := searched(f); ok {
				r.read(inner, fieldName, fieldPath)
			}
		}
	}
}

// leads reports whether there is a tag in a struct or in the ones that are searched from
// there, without those in seen. Only ways that lead somewhere are walked: there can be
// too many through the types of a database's tables.
func (r *tagReader) leads(t reflect.Type, seen map[reflect.Type]bool) bool {
	if r.inside[t] || seen[t] {
		return false
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup(tagName)
		if tagged && tag != "-" {
			return true
		}
		if inner, ok := searched(f); ok && !tagged && r.leads(inner, seen) {
			return true
		}
	}
	return false
}

// searched returns the struct of a field that is searched if the field has no tag.
func searched(f reflect.StructField) (reflect.Type, bool) {
	inner := elem(f.Type)
	return inner, inner.Kind() == reflect.Struct && (f.IsExported() || f.Anonymous)
}

func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (r *tagReader) add(tag string, f reflect.StructField, at field) {
	report := func(format string, args ...any) {
		r.wrong = append(r.wrong, fmt.Errorf("%v.%s: "+format, append([]any{r.of, at.name}, args...)...))
	}
	switch earlier, twice := r.fields[tag]; {
	case !isName(tag):
		report("the tag %s:%q is no name that a template can have", tagName, tag)
	case !f.IsExported():
		report("the field has the tag %s:%q, but is not exported", tagName, tag)
	case !guard.IsKeyPart(f.Type):
		report("a %v cannot be part of a key, only strings, integers, booleans and types with MarshalText or String", f.Type)
	case twice:
		report("the tag %s:%q is that of %s already", tagName, tag, earlier.name)
	default:
		r.fields[tag] = at
	}
}

// isName reports whether a template can have the variable <name>, and leave
// its meaning to us.
func isName(name string) bool {
	t, err := key.Parse("x:<" + name + ">")
	return err == nil && t.Vars()[0].Name == name && t.Vars()[0].Source == "" && !t.Vars()[0].Reserved()
}

// text returns the value of the field in v as a string.
func (f field) text(v reflect.Value) (string, error) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "", key.ErrMissing
		}
		v = v.Elem()
	}
	for _, i := range f.path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return "", key.ErrMissing
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return guard.KeyPart(v.Interface())
}

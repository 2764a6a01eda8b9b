package lockgen

import (
	"go/types"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// tagged goes to the one field with that tag in the structs among the
// parameters. It searches as annotations.VarsOf does.
func (w *walk) tagged(tag string) error {
	s := searcher{tag: tag}
	for _, p := range w.params {
		s.search(deref(p.typ), hit{param: p})
	}
	switch len(s.hits) {
	case 0:
		return wrong(0, "unknown variable <%s>: %s has no such parameter (it has %s), and no parameter has a field with the tag lock:%q",
			tag, w.method, w.known(), tag)
	case 1:
		return w.take(tag, s.hits[0])
	}
	return wrong(0, "<%s> is ambiguous: the tag lock:%q is at %s and at %s", tag, tag, s.hits[0].text(), s.hits[1].text())
}

// hit is a field with the tag.
type hit struct {
	param  param
	fields []*types.Var
}

func (h hit) text() string {
	names := []string{h.param.source}
	for _, f := range h.fields {
		names = append(names, f.Name())
	}
	return strings.Join(names, ".")
}

// searcher finds the fields with a tag, two of them at most: more say no more.
type searcher struct {
	tag    string
	hits   []hit
	inside typeutil.Map // the structs that contain the one that is searched
}

func (s *searcher) search(t types.Type, at hit) {
	of, ok := t.Underlying().(*types.Struct)
	if !ok || len(s.hits) > 1 || !s.leads(t, new(typeutil.Map)) {
		return
	}
	s.inside.Set(t, true)
	defer s.inside.Delete(t)
	for i := range of.NumFields() {
		f, here := of.Field(i), hit{at.param, append(slices.Clip(at.fields), of.Field(i))}
		if tag, open := fieldTag(of, i); open {
			s.search(deref(f.Type()), here)
		} else if tag == s.tag {
			s.hits = append(s.hits, here)
		}
	}
}

// leads reports whether a search of t finds a hit, without the structs in seen. Only ways
// that lead somewhere are walked: there can be too many through the types of a
// database's tables.
func (s *searcher) leads(t types.Type, seen *typeutil.Map) bool {
	of, ok := t.Underlying().(*types.Struct)
	if !ok || s.inside.At(t) != nil || seen.Set(t, true) != nil {
		return false
	}
	for i := range of.NumFields() {
		tag, open := fieldTag(of, i)
		if open && s.leads(deref(of.Field(i).Type()), seen) || !open && tag == s.tag {
			return true
		}
	}
	return false
}

// fieldTag returns the tag of a field; open says that it has none, and that the field is
// searched.
func fieldTag(of *types.Struct, i int) (tag string, open bool) {
	tag, has := reflect.StructTag(of.Tag(i)).Lookup("lock")
	return tag, !has && (of.Field(i).Exported() || of.Field(i).Embedded())
}

// take goes along the fields of a hit.
func (w *walk) take(tag string, h hit) error {
	w.expr, w.typ, w.addressable = h.param.name, h.param.typ, true
	for _, f := range h.fields {
		w.guard()
		if !f.Exported() && f.Pkg() != w.pkg {
			return wrong(0, "<%s> is %s, and %s is not exported", tag, h.text(), f.Name())
		}
		w.expr, w.typ = w.expr+"."+f.Name(), f.Type()
	}
	if last := h.fields[len(h.fields)-1]; !last.Exported() {
		return wrong(0, "<%s> is %s, which has the tag lock:%q, but is not exported", tag, h.text(), tag)
	}
	return nil
}

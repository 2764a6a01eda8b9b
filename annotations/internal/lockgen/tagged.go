package lockgen

import (
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// tagged goes to the one field with that tag in the structs among the
// parameters. It searches as annotations.VarsOf does.
func (w *walk) tagged(tag string) error {
	var hits []hit
	for _, p := range w.params {
		if s, ok := deref(p.typ).Underlying().(*types.Struct); ok {
			hits = append(hits, search(tag, s, hit{param: p}, []types.Type{deref(p.typ)})...)
		}
	}
	switch len(hits) {
	case 0:
		return wrong(0, "unknown variable <%s>: %s has no such parameter (it has %s), and no parameter has a field with the tag lock:%q",
			tag, w.method, w.known(), tag)
	case 1:
		return w.take(tag, hits[0])
	}
	return wrong(0, "<%s> is ambiguous: the tag lock:%q is at %s and at %s", tag, tag, hits[0].text(), hits[1].text())
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

func search(tag string, s *types.Struct, at hit, inside []types.Type) []hit {
	var hits []hit
	for i := range s.NumFields() {
		f := s.Field(i)
		here := hit{at.param, append(slices.Clip(at.fields), f)}
		name, has := reflect.StructTag(s.Tag(i)).Lookup("lock")
		switch {
		case name == "-":
		case has && name == tag:
			hits = append(hits, here)
		case !has && (f.Exported() || f.Embedded()):
			t := deref(f.Type())
			again := slices.ContainsFunc(inside, func(outer types.Type) bool { return types.Identical(outer, t) })
			if inner, ok := t.Underlying().(*types.Struct); ok && !again {
				hits = append(hits, search(tag, inner, here, append(slices.Clip(inside), t))...)
			}
		}
	}
	return hits
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

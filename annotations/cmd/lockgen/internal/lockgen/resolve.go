package lockgen

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/annotations/internal/directive"
)

// lookup is how generated code finds the value of one variable.
type lookup struct {
	name  string   // as the canonical template has it
	lines []string // what comes before
	value string   // the call that makes the text
}

// unresolved says what is wrong with a variable; offset is where, in its path.
type unresolved struct {
	offset  int
	reason  string
	unknown bool // a type on the way isn't known
}

func (u *unresolved) Error() string { return u.reason }

func wrong(offset int, format string, args ...any) error {
	return &unresolved{offset: offset, reason: fmt.Sprintf(format, args...)}
}

// resolver resolves the variables of one method.
type resolver struct {
	pkg      *types.Package
	guardPkg string // what the file calls package guard
	method   string
	params   []param // without the context
	ctx      string  // the context's name in the source
	fresh    names   // for locals
}

type param struct {
	source   string // its name in the source, "" if it has none
	name     string // in generated code
	typ      types.Type
	variadic bool
}

// resolve finds the value of a variable: a parameter, a path from one, or, for
// a bare name that no parameter has, the field with that tag.
func (r *resolver) resolve(v directive.Var) (lookup, error) {
	w := &walk{resolver: r, path: v.Path}
	if v.Reserved() {
		return lookup{}, wrong(0, "<%s> is kept for integrations that have such a thing, give the parameter another name", v.Path)
	}
	root, rest, _ := strings.Cut(v.Path, ".")
	p, ok := r.param(root)
	switch {
	case ok:
		w.expr, w.typ, w.addressable = p.name, p.typ, true
		if err := w.follow(rest, len(root)+1); err != nil {
			return lookup{}, err
		}
	case root == r.ctx && root != "":
		return lookup{}, wrong(0, "<%s>: values of a context have no types that could be checked, pass them as parameters", v.Path)
	case rest != "":
		cure := ""
		if _, ok := r.param(rest); ok {
			cure = fmt.Sprintf(": write <%s>", rest) // the root is a source of HTTP or gRPC
		}
		return lookup{}, wrong(0, "unknown parameter %q, %s has %s%s", root, r.method, r.known(), cure)
	default:
		if err := w.tagged(root); err != nil {
			return lookup{}, err
		}
	}
	value, err := w.text()
	if err != nil {
		return lookup{}, err
	}
	w.flush()
	return lookup{name: v.String(), lines: w.lines, value: value}, nil
}

func (r *resolver) param(name string) (param, bool) {
	for _, p := range r.params {
		if p.source == name && name != "_" {
			return p, true
		}
	}
	return param{}, false
}

func (r *resolver) known() string {
	var known []string
	for _, p := range r.params {
		if p.source != "" && p.source != "_" {
			known = append(known, p.source)
		}
	}
	switch {
	case len(known) > 0:
		return strings.Join(known, ", ")
	case len(r.params) > 0:
		return "only parameters without a name"
	}
	return "none but the context"
}

// walk goes from a parameter to a value, and notes what may be nil on the way.
type walk struct {
	*resolver
	path        string
	expr        string
	typ         types.Type
	addressable bool
	nils        []string // expressions to compare with nil before the next step
	lines       []string
	offset      int // of the last segment in the path
}

// flush writes down the comparisons so far.
func (w *walk) flush() {
	if len(w.nils) > 0 {
		w.lines = append(w.lines, "if "+strings.Join(w.nils, " == nil || ")+" == nil {", "return "+w.guardPkg+".KeyPart(nil)", "}")
		w.nils = nil
	}
}

// follow goes along a path, whose offset in the variable is given.
func (w *walk) follow(path string, offset int) error {
	for path != "" {
		name, rest, _ := strings.Cut(path, ".")
		w.offset = offset
		if err := w.step(name); err != nil {
			return err
		}
		path, offset = rest, offset+len(name)+1
	}
	return nil
}

// step selects a field or calls a method.
func (w *walk) step(name string) error {
	if err := w.checkKnown(w.path[:w.offset-1]); err != nil {
		return err
	}
	w.guard()
	object, index, _ := types.LookupFieldOrMethod(w.typ, w.addressable, w.pkg, name)
	if object == nil {
		if index != nil {
			return wrong(w.offset, "%q is ambiguous in %s", name, w.show(w.typ))
		}
		return wrong(w.offset, "%s has no field or method %q%s", w.show(w.typ), name, w.meant(name))
	}
	if err := w.through(index); err != nil {
		return err
	}
	method, ok := object.(*types.Func)
	if !ok {
		w.expr, w.typ = w.expr+"."+name, object.Type()
		return nil
	}
	s := method.Signature()
	if s.Params().Len() != 0 || s.Results().Len() != 1 {
		return wrong(w.offset, "method %q of %s is no getter: it needs no parameters and one result", name, w.show(w.typ))
	}
	w.flush()
	local := w.fresh.take("x")
	w.lines = append(w.lines, fmt.Sprintf("%s := %s.%s()", local, w.expr, name))
	w.expr, w.typ, w.addressable = local, s.Results().At(0).Type(), true
	return nil
}

// checkKnown returns an error if the type of what the path leads to isn't known.
func (w *walk) checkKnown(path string) error {
	if isKnown(deref(w.typ)) {
		return nil
	}
	return &unresolved{w.offset, fmt.Sprintf("the type of %s is not known", path), true}
}

// guard notes that what is selected from must not be nil.
func (w *walk) guard() {
	switch w.typ.Underlying().(type) {
	case *types.Pointer, *types.Interface:
		if !isTypeParam(w.typ) {
			w.nils = append(w.nils, w.expr)
		}
	}
}

// through passes the embedded fields before the last index. The ones that are
// pointers may be nil.
func (w *walk) through(index []int) error {
	at, expr := w.typ, w.expr
	for _, i := range index[:len(index)-1] {
		s, ok := deref(at).Underlying().(*types.Struct)
		if !ok {
			return nil
		}
		f := s.Field(i)
		nilable := false
		switch f.Type().Underlying().(type) {
		case *types.Pointer, *types.Interface:
			nilable = true
		}
		if f.Exported() || f.Pkg() == w.pkg {
			expr += "." + f.Name()
			if nilable {
				w.nils = append(w.nils, expr)
			}
		} else if nilable {
			return wrong(w.offset, "it is reached through the unexported %s, which may be nil", f.Name())
		}
		at = f.Type()
	}
	return nil
}

// meant guesses at what a wrong name stands for.
func (w *walk) meant(name string) string {
	s, ok := deref(w.typ).Underlying().(*types.Struct)
	if !ok {
		return ""
	}
	var all []string
	for i := range s.NumFields() {
		f := s.Field(i)
		if !f.Exported() && f.Pkg() != w.pkg {
			continue
		}
		if strings.EqualFold(f.Name(), name) {
			return fmt.Sprintf(", but %q", f.Name())
		}
		all = append(all, f.Name())
	}
	if len(all) == 0 || len(all) > 12 {
		return ""
	}
	return ", it has " + strings.Join(all, ", ")
}

func (w *walk) show(t types.Type) string { return types.TypeString(t, types.RelativeTo(w.pkg)) }

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

// text writes what the walk has come to, as guard.KeyPart does: a type counts by
// what it holds, and one that holds no plain value writes itself.
func (w *walk) text() (string, error) {
	if err := w.checkKnown(w.path); err != nil {
		return "", err
	}
	inner := w.typ
	if p, ok := types.Unalias(w.typ).(*types.Pointer); ok {
		inner = p.Elem()
	}
	if plain(inner) || w.writes() {
		return fmt.Sprintf("%s.KeyPart(%s)", w.guardPkg, w.expr), nil
	}
	return "", wrong(w.offset, "<%s> is a %s, which cannot be part of a key: only strings, integers, booleans and types with MarshalText or String can%s",
		w.path, w.show(w.typ), w.inside())
}

// writes reports whether values have a method that writes them, or their
// pointers do.
func (w *walk) writes() bool {
	return slices.ContainsFunc(writers, func(writer *types.Interface) bool {
		return types.Implements(w.typ, writer) ||
			!types.IsInterface(w.typ) && types.Implements(types.NewPointer(w.typ), writer)
	})
}

// inside names a field of a struct that can't be part of a key itself.
func (w *walk) inside() string {
	s, ok := deref(w.typ).Underlying().(*types.Struct)
	if !ok {
		return ""
	}
	for i := range s.NumFields() {
		if f := s.Field(i); (f.Exported() || f.Pkg() == w.pkg) && plain(deref(f.Type())) {
			return fmt.Sprintf(", so name a field, such as <%s.%s>", w.path, f.Name())
		}
	}
	return ""
}

func isTypeParam(t types.Type) bool {
	_, ok := types.Unalias(t).(*types.TypeParam)
	return ok
}

// plain reports whether a type is made of a string, integer or boolean. A type
// parameter is if all types of its constraint are.
func plain(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		return plainTerms(p.Constraint())
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsString|types.IsBoolean|types.IsInteger) != 0
}

func plainTerms(constraint types.Type) bool {
	i, ok := constraint.Underlying().(*types.Interface)
	if !ok {
		return plain(constraint)
	}
	for e := range i.EmbeddedTypes() { // all embedded must hold, so one is enough
		if union, ok := e.(*types.Union); ok && plainUnion(union) || !ok && plainTerms(e) {
			return true
		}
	}
	return false
}

func plainUnion(u *types.Union) bool {
	for term := range u.Terms() {
		if !plainTerms(term.Type()) {
			return false
		}
	}
	return u.Len() > 0
}

// writers are the interfaces of types that write themselves.
var writers = []*types.Interface{
	oneMethod("MarshalText", types.NewSlice(types.Typ[types.Byte]), types.Universe.Lookup("error").Type()),
	oneMethod("String", types.Typ[types.String]),
}

func oneMethod(name string, results ...types.Type) *types.Interface {
	vars := make([]*types.Var, len(results))
	for i, t := range results {
		vars[i] = types.NewVar(token.NoPos, nil, "", t)
	}
	s := types.NewSignatureType(nil, nil, nil, nil, types.NewTuple(vars...), false)
	return types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, nil, name, s)}, nil).Complete()
}

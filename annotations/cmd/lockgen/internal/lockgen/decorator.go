package lockgen

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redlatch/redlatch/annotations/internal/directive"
	"github.com/redlatch/redlatch/core/rule"
)

// decorator is what is written for one interface.
type decorator struct {
	source      string // the interface
	name        string // the decorator
	constructor string
	params      []typeParam
	methods     []*method
}

type typeParam struct {
	name       string
	constraint types.Type
}

// method is a method of a decorator. Without locks it only delegates.
type method struct {
	name    string
	fn      *types.Func
	sig     *types.Signature
	params  []param // the context included, if there are locks
	locks   []*directive.Directive
	lookups []lookup
}

// builder makes the decorators of one source file.
type builder struct {
	pkg     *types.Package
	info    *types.Info
	methods map[token.Pos][]found
	imports *imports
	foreign *foreign
	report  func(at token.Pos, format string, args ...any)
	unknown bool // types were not known
}

// build makes the decorators of all interfaces in the file that have a method
// with directives, their own or that of an interface they embed.
func (b *builder) build(file *ast.File) []*decorator {
	var all []*decorator
	for t := range typeSpecs(file) {
		if object, ok := b.info.Defs[t.Name].(*types.TypeName); ok {
			if d := b.decorator(t, object); d != nil {
				all = append(all, d)
			}
		}
	}
	return all
}

func (b *builder) decorator(spec *ast.TypeSpec, object *types.TypeName) *decorator {
	iface, ok := object.Type().Underlying().(*types.Interface)
	if !ok || spec.Assign.IsValid() && !isLiteral(spec) {
		return nil // an alias is what it stands for
	}
	methods := b.ordered(spec, iface)
	b.elsewhere(spec, iface, methods)
	if !slices.ContainsFunc(methods, func(fn *types.Func) bool { return len(b.withDirectives(iface, fn)) > 0 }) {
		return nil
	}
	d := &decorator{source: object.Name(), name: object.Name() + "Lock"}
	d.constructor = "New" + d.name
	if !object.Exported() {
		d.constructor = "new" + upperFirst(d.name)
	}
	if !iface.IsMethodSet() {
		b.report(spec.Name.Pos(), "%s is a constraint, no values have its type, so its methods cannot be locked", d.source)
		return nil
	}
	for _, name := range []string{d.name, d.constructor} {
		if taken := b.pkg.Scope().Lookup(name); taken != nil {
			b.report(taken.Pos(), "%s is the name of what lockgen writes for %s, give one of the two another name", name, d.source)
		}
	}
	d.params = b.typeParams(object.Type())
	for _, fn := range methods {
		if m := b.method(d, spec, iface, fn); m != nil {
			d.methods = append(d.methods, m)
		}
	}
	return d
}

// elsewhere reports methods of embedded interfaces of other packages that have a directive
// there: it locks nothing here, where the method would look as if it did.
func (b *builder) elsewhere(spec *ast.TypeSpec, iface *types.Interface, methods []*types.Func) {
	for _, fn := range methods {
		own := slices.ContainsFunc(slices.Collect(iface.ExplicitMethods()), func(m *types.Func) bool { return m.Id() == fn.Id() })
		if own || fn.Pkg() == b.pkg || len(b.withDirectives(iface, fn)) > 0 || !b.foreign.locks(fn) {
			continue
		}
		b.report(spec.Name.Pos(), "%s embeds %s of package %s, whose directive there locks nothing here: write the method into %s, with the directive that counts or without one",
			spec.Name.Name, fn.Name(), fn.Pkg().Path(), spec.Name.Name)
	}
}

func isLiteral(spec *ast.TypeSpec) bool {
	_, ok := ast.Unparen(spec.Type).(*ast.InterfaceType)
	return ok
}

func upperFirst(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// typeParams gives those without a name one that means nothing else.
func (b *builder) typeParams(t types.Type) []typeParam {
	generic, ok := t.(interface{ TypeParams() *types.TypeParamList })
	if !ok || generic.TypeParams().Len() == 0 {
		return nil
	}
	taken := maps.Clone(b.imports.names)
	var params []typeParam
	for p := range generic.TypeParams().TypeParams() {
		name := p.Obj().Name()
		if name == "_" {
			name = taken.take("T")
		}
		params = append(params, typeParam{name, p.Constraint()})
	}
	return params
}

// ordered returns the methods: the interface's own as they are written, then
// those of embedded interfaces by name.
func (b *builder) ordered(spec *ast.TypeSpec, iface *types.Interface) []*types.Func {
	methods := slices.Collect(iface.Methods())
	own := func(fn *types.Func) bool { return spec.Pos() <= fn.Pos() && fn.Pos() < spec.End() }
	slices.SortStableFunc(methods, func(x, y *types.Func) int {
		switch {
		case own(x) && own(y):
			return cmp.Compare(x.Pos(), y.Pos())
		case own(x):
			return -1
		case own(y):
			return 1
		}
		return strings.Compare(x.Name(), y.Name())
	})
	return methods
}

// withDirectives returns the method itself if it is written in the interface and has
// directives. Otherwise it returns those of its name in embedded interfaces that have
// some: one only if it is the same in all of the ways in which it reaches the interface.
func (b *builder) withDirectives(iface *types.Interface, fn *types.Func) []*types.Func {
	for own := range iface.ExplicitMethods() {
		if own.Id() == fn.Id() && len(b.methods[own.Pos()]) > 0 {
			return []*types.Func{own}
		}
	}
	var all []*types.Func
	for t := range iface.EmbeddedTypes() {
		if embedded, ok := t.Underlying().(*types.Interface); ok {
			all = append(all, b.withDirectives(embedded, fn)...)
		}
	}
	return slices.CompactFunc(all, func(x, y *types.Func) bool { return x.Pos() == y.Pos() })
}

func (b *builder) method(d *decorator, spec *ast.TypeSpec, iface *types.Interface, fn *types.Func) *method {
	switch locked := b.withDirectives(iface, fn); len(locked) {
	case 0:
	case 1:
		fn = locked[0] // the directives name its parameters
	default:
		b.report(spec.Name.Pos(), "%s has directives for %s from several interfaces, write the method into %s, with the directives that count",
			d.source, fn.Name(), d.source)
		return nil
	}
	sig := fn.Signature()
	at := fn.Pos()
	if fn.Pkg() != b.pkg {
		at = spec.Name.Pos() // its own place is in another package
	}
	if !valid(sig) {
		b.notKnown(at, fn)
		return nil
	}
	if !fn.Exported() && fn.Pkg() != b.pkg {
		b.report(at, "%s has the unexported method %s of another package, so nothing here can implement it", d.source, fn.Name())
		return nil
	}
	if err := b.imports.writable(sig); err != nil {
		b.report(at, "the types of %s cannot be written here: %v", fn.Name(), err)
		return nil
	}
	if hidden := b.hidden(d, sig); hidden != "" {
		b.report(spec.Name.Pos(), "the type parameter %s of %s hides the type %s of its method %s, give the parameter another name",
			hidden, d.source, hidden, fn.Name())
		return nil
	}
	m := &method{name: fn.Name(), fn: fn, sig: sig}
	directives := b.methods[fn.Pos()]
	b.nameParams(d, m)
	if len(directives) > 0 && !b.lockable(at, m) {
		b.lock(m, directives) // for what is wrong with them as well
		return nil
	}
	if len(directives) > 0 {
		b.lock(m, directives)
	}
	return m
}

// hidden returns the name of a type in the signature, as of a method of an embedded
// interface, that means a type parameter in the decorator.
func (b *builder) hidden(d *decorator, sig *types.Signature) (name string) {
	_ = visit(sig, func(o types.Object) error {
		unqualified := isType(o) && (o.Pkg() == nil || o.Pkg() == b.pkg)
		if unqualified && !isTypeParam(o.Type()) && slices.ContainsFunc(d.params, func(p typeParam) bool { return p.name == o.Name() }) {
			name = o.Name()
		}
		return nil
	})
	return name
}

func (b *builder) notKnown(at token.Pos, fn *types.Func) {
	b.unknown = true
	b.report(at, "the types of %s are not all known", fn.Name())
}

// lockable reports whether there is a place for the context and the error.
func (b *builder) lockable(at token.Pos, m *method) bool {
	params, results := m.sig.Params(), m.sig.Results()
	if params.Len() > 0 && !isKnown(params.At(0).Type()) || results.Len() > 0 && !isKnown(results.At(results.Len()-1).Type()) {
		b.notKnown(at, m.fn)
		return false
	}
	takes := params.Len() > 0 && isContext(params.At(0).Type())
	fails := results.Len() > 0 && types.Identical(results.At(results.Len()-1).Type(), types.Universe.Lookup("error").Type())
	if !takes {
		b.report(at, "%s has a directive, but no context.Context as its first parameter: a lock needs it to wait, and to end the work when it is lost", m.name)
	}
	if !fails {
		b.report(at, "%s has a directive, but no error as its last result: there is no way to say that the lock was not obtained or was lost", m.name)
	}
	return takes && fails
}

func isContext(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == "Context" && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "context"
}

// nameParams gives each parameter the name that it has in the source, or one
// like it where that means something else in the generated method.
func (b *builder) nameParams(d *decorator, m *method) {
	taken := b.imports.around(m.sig)
	for _, p := range d.params {
		taken.add(p.name)
	}
	for i := range m.sig.Params().Len() {
		v := m.sig.Params().At(i)
		name := v.Name()
		switch {
		case name != "" && name != "_":
		case i == 0 && isContext(v.Type()):
			name = "ctx"
		default:
			name = fmt.Sprintf("arg%d", i)
		}
		m.params = append(m.params, param{
			source: v.Name(), name: taken.take(name), typ: v.Type(),
			variadic: m.sig.Variadic() && i == m.sig.Params().Len()-1,
		})
	}
}

// lock resolves the directives of a method.
func (b *builder) lock(m *method, directives []found) {
	r := &resolver{
		pkg: b.pkg, guardPkg: b.imports.guard(), method: m.name, params: m.params,
		fresh: newNames(b.imports.receiver, variable, b.imports.runtime(), b.imports.guard()),
	}
	if len(m.params) > 0 && isContext(m.params[0].typ) {
		r.ctx, r.params = m.params[0].source, m.params[1:]
	}
	for _, p := range m.params {
		r.fresh.add(p.name)
	}
	paths := make(map[string]string) // by the variable's name
	complete := true
	for _, f := range directives {
		if f.wrong {
			complete = false
		}
		m.locks = append(m.locks, f.Directive)
		if f.Template == nil || f.reported { // it is wrong, and its variables may be, too
		} else if reason, column := rule.Unbracketed(f.Template, func(name string) bool { _, ok := r.param(name); return ok }); reason != "" {
			b.report(f.place(f.TemplateColumn+column-1), "%s", reason)
		}
		for _, v := range f.Vars {
			if path, ok := paths[v.String()]; ok && path == v.Path {
				continue
			} else if ok {
				b.report(f.place(v.At), "<%s> and <%s> are ambiguous, give a parameter another name", v.Path, path)
				continue
			}
			paths[v.String()] = v.Path
			l, err := r.resolve(v)
			var u *unresolved
			if errors.As(err, &u) {
				b.unknown = b.unknown || u.unknown
				b.report(f.place(v.At+u.offset), "%s", u.reason)
				continue
			}
			m.lookups = append(m.lookups, l)
		}
	}
	if complete {
		_, faults := directive.Join(m.locks)
		for _, wrong := range faults {
			b.report(directives[wrong.Index].place(wrong.Column), "%s", wrong.Reason)
		}
	}
}

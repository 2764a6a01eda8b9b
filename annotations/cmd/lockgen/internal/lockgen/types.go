package lockgen

import (
	"cmp"
	"fmt"
	"go/types"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// imports are those of one output.
type imports struct {
	pkg      *types.Package
	path     string            // of the package, of the tested one for tests outside of it
	names    names             // of the package and of type parameters, and then of the imports
	receiver string            // of all methods
	prefer   map[string]string // what the source calls them, by path
	used     map[string]string // by path
	plain    map[string]string // the packages' own names, by path
}

// use imports a package and returns its name in the file.
func (im *imports) use(importPath, name string) string {
	if known, ok := im.used[importPath]; ok {
		return known
	}
	im.plain[importPath] = name
	if alias, ok := im.prefer[importPath]; ok {
		name = alias
	}
	im.used[importPath] = im.names.take(name)
	return im.used[importPath]
}

// What every output imports, and what it is called there.
const (
	runtimePath = "github.com/redlatch/redlatch/annotations"
	guardPath   = "github.com/redlatch/redlatch/core/guard"
)

func (im *imports) runtime() string { return im.use(runtimePath, "annotations") }
func (im *imports) guard() string   { return im.use(guardPath, "guard") }

// around are the identifiers that mean something in a generated method.
func (im *imports) around(sig *types.Signature) names {
	taken := newNames(im.receiver, im.runtime(), im.guard(), "any", "error", "nil", "string")
	im.mentioned(sig, taken)
	return taken
}

// clause writes the imports: the standard library first.
func (im *imports) clause() string {
	var standard, others []string
	for _, p := range slices.Sorted(maps.Keys(im.used)) {
		line := strconv.Quote(p)
		if im.used[p] != im.plain[p] || path.Base(p) != im.plain[p] {
			line = im.used[p] + " " + line
		}
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			others = append(others, line)
		} else {
			standard = append(standard, line)
		}
	}
	groups := []string{strings.Join(standard, "\n")}
	if len(others) > 0 {
		groups = append(groups, strings.Join(others, "\n"))
	}
	return "import (\n" + strings.Join(groups, "\n\n") + "\n)\n"
}

// text writes a type.
func (im *imports) text(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == im.pkg {
			return ""
		}
		return im.use(p.Path(), p.Name())
	})
}

// mentioned adds the identifiers that a type's text begins its names with: of
// types here, and of the packages of others.
func (im *imports) mentioned(t types.Type, into names) {
	_ = visit(t, func(o types.Object) error {
		switch {
		case !isType(o):
		case o.Pkg() == nil || o.Pkg() == im.pkg:
			into.add(o.Name())
		default:
			into.add(im.use(o.Pkg().Path(), o.Pkg().Name()))
		}
		return nil
	})
}

// writable reports why a type can't be written in the package.
func (im *imports) writable(t types.Type) error {
	return visit(t, func(o types.Object) error {
		switch {
		case o.Pkg() == nil || o.Pkg() == im.pkg:
			return nil
		case !o.Exported():
			return fmt.Errorf("%s.%s is not exported", o.Pkg().Name(), o.Name())
		case isType(o) && !importable(im.path, o.Pkg().Path()):
			return fmt.Errorf("package %s is internal to another", o.Pkg().Path())
		}
		return nil
	})
}

// importable applies the rule of internal packages.
func importable(from, imported string) bool {
	parent, ok := internalTo(imported)
	return !ok || from == parent || strings.HasPrefix(from, parent+"/")
}

func internalTo(imported string) (parent string, ok bool) {
	if i := strings.LastIndex(imported, "/internal/"); i >= 0 {
		return imported[:i], true
	}
	return strings.CutSuffix(imported, "/internal")
}

// visit calls see for every name that the text of a type consists of: those of types,
// and those of fields and methods of types without a name.
func visit(t types.Type, see func(types.Object) error) error {
	all := func(ts ...types.Type) error {
		for _, t := range ts {
			if err := visit(t, see); err != nil {
				return err
			}
		}
		return nil
	}
	named := func(o *types.TypeName, args *types.TypeList) error {
		if err := see(o); err != nil {
			return err
		}
		return all(slices.Collect(args.Types())...)
	}
	switch t := t.(type) {
	case *types.Basic:
		scope := types.Universe
		if t.Kind() == types.UnsafePointer {
			scope = types.Unsafe.Scope()
		}
		if o := scope.Lookup(t.Name()); o != nil {
			return see(o)
		}
	case *types.Named:
		return named(t.Obj(), t.TypeArgs())
	case *types.Alias:
		return named(t.Obj(), t.TypeArgs())
	case *types.TypeParam:
		return see(t.Obj())
	case *types.Pointer:
		return visit(t.Elem(), see)
	case *types.Slice:
		return visit(t.Elem(), see)
	case *types.Array:
		return visit(t.Elem(), see)
	case *types.Chan:
		return visit(t.Elem(), see)
	case *types.Map:
		return all(t.Key(), t.Elem())
	case *types.Tuple:
		for v := range t.Variables() {
			if err := visit(v.Type(), see); err != nil {
				return err
			}
		}
	case *types.Signature:
		return all(t.Params(), t.Results())
	case *types.Struct:
		for f := range t.Fields() {
			if err := cmp.Or(see(f), visit(f.Type(), see)); err != nil {
				return err
			}
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			if err := cmp.Or(see(m), visit(m.Type(), see)); err != nil {
				return err
			}
		}
		return all(slices.Collect(t.EmbeddedTypes())...)
	case *types.Union:
		for term := range t.Terms() {
			if err := visit(term.Type(), see); err != nil {
				return err
			}
		}
	}
	return nil
}

func isType(o types.Object) bool {
	_, ok := o.(*types.TypeName)
	return ok
}

// valid reports whether all of a type is known. One that isn't, in whatever
// depth, is in its text.
func valid(t types.Type) bool { return !strings.Contains(types.TypeString(t, nil), "invalid type") }

// isKnown reports whether it is known what a type stands for: one with a name can be
// written although that isn't.
func isKnown(t types.Type) bool { return t.Underlying() != types.Typ[types.Invalid] }

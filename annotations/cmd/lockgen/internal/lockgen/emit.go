package lockgen

import (
	"fmt"
	"go/format"
	"go/types"
	"strconv"
	"strings"
)

// variable is the name of what the lookups of generated methods get.
const variable = "v"

// emitter writes the decorators of one source file.
type emitter struct {
	*imports
	body strings.Builder
}

func (e *emitter) line(format string, args ...any) { fmt.Fprintf(&e.body, format+"\n", args...) }

// emit writes the whole file.
func (e *emitter) emit(pkg, build string, decorators []*decorator) ([]byte, error) {
	for _, d := range decorators {
		e.decorator(d)
	}
	var head strings.Builder
	head.WriteString(marker + "\n\n")
	if build != "" {
		head.WriteString(build + "\n\n")
	}
	head.WriteString("package " + pkg + "\n\n" + e.clause())
	text := head.String() + e.body.String()
	formatted, err := format.Source([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("what was generated is not Go, which is a bug of lockgen: %w\n%s", err, text)
	}
	return formatted, nil
}

func (e *emitter) decorator(d *decorator) {
	declared, used := e.typeParams(d)
	source, name := d.source+used, d.name+used
	fields := newNames()
	for _, m := range d.methods {
		fields.add(m.name)
	}
	next := fields.take("next")
	locks := make(map[*method]string)

	e.line("\n// %s is %s %s whose methods take the locks that their directives name.", d.name, article(d.source), d.source)
	e.line("// Its methods are for concurrent use if those of the decorated one are.")
	e.line("type %s%s struct {", d.name, declared)
	e.line("%s %s", next, source)
	for _, m := range d.methods {
		if len(m.locks) > 0 {
			locks[m] = fields.take("lock" + upperFirst(m.name))
			e.line("%s *%s.Method", locks[m], e.runtime())
		}
	}
	e.line("}\n")

	if declared == "" {
		e.line("var _ %s = (*%s)(nil)\n", source, name)
	} else {
		e.line("func _%s() {\nvar _ %s = (*%s)(nil)\n}\n", declared, source, name)
	}
	e.constructor(d, declared, source, name, next, locks)
	for _, m := range d.methods {
		e.method(d, m, name, next, locks[m])
	}
}

func article(name string) string {
	if strings.ContainsAny(name[:1], "aeioAEIO") {
		return "an"
	}
	return "a"
}

// typeParams writes the type parameters as they are declared and as they are
// used.
func (e *emitter) typeParams(d *decorator) (declared, used string) {
	if len(d.params) == 0 {
		return "", ""
	}
	var declarations, names []string
	for _, p := range d.params {
		declarations = append(declarations, p.name+" "+e.text(p.constraint))
		names = append(names, p.name)
	}
	comma := ""
	if len(d.params) == 1 && strings.HasPrefix(e.text(d.params[0].constraint), "*") {
		comma = "," // [P *C] is the length of an array
	}
	return "[" + strings.Join(declarations, ", ") + comma + "]", "[" + strings.Join(names, ", ") + "]"
}

func (e *emitter) constructor(d *decorator, declared, source, name, nextField string, locks map[*method]string) {
	taken := newNames(d.source, d.name, e.runtime(), e.guard(), "nil", "error")
	for _, p := range d.params {
		taken.add(p.name)
	}
	next, g, compiler, self := taken.take("next"), taken.take("g"), taken.take("locks"), taken.take("l")
	e.line("// %s puts the locks of %s in front of %s. The error lists the rules of %s\n// that do not fit.",
		d.constructor, g, next, g)
	e.line("func %s%s(%s %s, %s *%s.Guard) (%s, error) {", d.constructor, declared, next, source, g, e.guard(), source)
	e.line("%s := %s.NewCompiler(%s)", compiler, e.runtime(), g)
	e.line("%s := &%s{", self, name)
	e.line("%s: %s,", nextField, next)
	for _, m := range d.methods {
		if len(m.locks) == 0 {
			continue
		}
		e.line("%s: %s.Method(%s,", locks[m], compiler, strconv.Quote(d.source+"."+m.name))
		for _, l := range m.locks {
			e.line("%s,", strconv.Quote(l.Source))
		}
		e.line("),")
	}
	e.line("}")
	err := taken.take("err")
	e.line("if %s := %s.Err(); %s != nil {\nreturn nil, %s\n}", err, compiler, err, err)
	e.line("return %s, nil\n}", self)
}

func (e *emitter) method(d *decorator, m *method, name, next, lock string) {
	params, args := e.params(m)
	results := e.resultTypes(m)
	call := fmt.Sprintf("%s.%s.%s(%s)", e.receiver, next, m.name, strings.Join(args, ", "))
	if len(m.locks) == 0 {
		e.line("\n// %s is that of the decorated %s.", m.name, d.source)
		e.line("func (%s *%s) %s(%s) %s {", e.receiver, name, m.name, params, list(results))
		if len(results) > 0 {
			call = "return " + call
		}
		e.line("%s\n}", call)
		return
	}
	e.line("\n// %s takes %s and calls that of the decorated %s.", m.name, templates(m), d.source)
	head := fmt.Sprintf("func (%s *%s) %s(%s) ", e.receiver, name, m.name, params)
	ctx := m.params[0].name
	inner := fmt.Sprintf("func(%s %s) ", ctx, e.text(m.params[0].typ))
	switch n := len(results); n {
	case 1:
		e.line("%serror {", head)
		e.line("return %s.Do(%s, %s.%s, %s, %serror {", e.runtime(), ctx, e.receiver, lock, e.lookups(m), inner)
		e.line("return %s\n})\n}", call)
	case 2:
		e.line("%s%s {", head, list(results))
		e.line("return %s.Call(%s, %s.%s, %s, %s%s {", e.runtime(), ctx, e.receiver, lock, e.lookups(m), inner, list(results))
		e.line("return %s\n})\n}", call)
	default:
		names, err := e.resultNames(m, n-1)
		declared := make([]string, n)
		for i, result := range results[:n-1] {
			declared[i] = names[i] + " " + result
		}
		declared[n-1] = err + " error"
		all := strings.Join(append(names, err), ", ")
		e.line("%s%s {", head, list(declared))
		e.line("%s = %s.Do(%s, %s.%s, %s, %s(%s error) {", err, e.runtime(), ctx, e.receiver, lock, e.lookups(m), inner, err)
		e.line("%s = %s\nreturn %s\n})", all, call, err)
		e.line("return %s\n}", all)
	}
}

func (e *emitter) params(m *method) (declared string, args []string) {
	all := make([]string, len(m.params))
	for i, p := range m.params {
		text, arg := e.text(p.typ), p.name
		if p.variadic {
			text, arg = "..."+e.text(p.typ.(*types.Slice).Elem()), arg+"..."
		}
		all[i] = p.name + " " + text
		args = append(args, arg)
	}
	return strings.Join(all, ", "), args
}

func (e *emitter) resultTypes(m *method) []string {
	var all []string
	for v := range m.sig.Results().Variables() {
		all = append(all, e.text(v.Type()))
	}
	return all
}

// resultNames names n results and the error.
func (e *emitter) resultNames(m *method, n int) (names []string, err string) {
	taken := e.around(m.sig)
	for _, p := range m.params {
		taken.add(p.name)
	}
	for i := range n {
		names = append(names, taken.take("r"+strconv.Itoa(i)))
	}
	return names, taken.take("err")
}

// list writes results.
func list(results []string) string {
	if len(results) < 2 {
		return strings.Join(results, "")
	}
	return "(" + strings.Join(results, ", ") + ")"
}

// lookups writes the func that finds the values of the variables.
func (e *emitter) lookups(m *method) string {
	if len(m.lookups) == 0 {
		return "nil"
	}
	var text strings.Builder
	taken := newNames(e.runtime(), e.guard())
	for _, p := range m.params {
		taken.add(p.name)
	}
	v := taken.take(variable)
	fmt.Fprintf(&text, "func(%s %s.Var) (string, error) {\nswitch %s.String() {\n", v, e.runtime(), v)
	for _, l := range m.lookups {
		fmt.Fprintf(&text, "case %s:\n", strconv.Quote(l.name))
		for _, line := range l.lines {
			text.WriteString(line + "\n")
		}
		fmt.Fprintf(&text, "return %s\n", l.value)
	}
	fmt.Fprintf(&text, "}\nreturn \"\", %s.ErrUnresolvable\n}", e.guard())
	return text.String()
}

// templates names the locks of a method for its doc comment.
func templates(m *method) string {
	var all []string
	for _, l := range m.locks {
		all = append(all, l.Written)
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

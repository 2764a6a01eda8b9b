package key

import (
	"maps"
	"slices"
)

// Limits, in bytes.
const (
	MaxTemplate = 256     // a template
	MaxValue    = 256     // a value, before it is escaped
	MaxHashed   = 1 << 20 // a value in front of the filter sha256
	MaxKey      = 512     // a rendered key
)

// Template is a parsed key template. It is immutable and safe for concurrent use.
// Make one with [Parse] or [MustParse].
type Template struct {
	text     string
	literals []string // one in front of each variable and one behind the last
	vars     []variable
	names    map[string]struct{}
}

// Lookup finds the value of a variable. It returns [ErrMissing] when there is
// none and [ErrAmbiguous] when there are several. It must not change v.Filters.
type Lookup func(v Var) (string, error)

// Vars maps names, as of [Var.String], to values.
type Vars map[string]string

// Parse reads a template. The error is a [*SyntaxError] that points at the first fault.
func Parse(text string) (*Template, error) {
	p := parser{text: text}
	if err := p.template(); err != nil {
		return nil, err
	}
	t := &Template{text: text, literals: p.literals, vars: p.vars, names: make(map[string]struct{}, len(p.vars))}
	for _, v := range t.vars {
		t.names[v.ref] = struct{}{}
	}
	return t, nil
}

// MustParse is [Parse] for templates that are part of the program. It panics if
// text isn't a valid template.
func MustParse(text string) *Template {
	t, err := Parse(text)
	if err != nil {
		panic(err) //nolint:forbidigo // a Must function
	}
	return t
}

// String returns the string that the template was parsed from.
func (t *Template) String() string { return t.text }

// Vars returns the variables in the order they appear, as a copy. A variable that
// appears twice is listed twice.
func (t *Template) Vars() []Var {
	vars := make([]Var, len(t.vars))
	for i, v := range t.vars {
		vars[i] = v.Var
		vars[i].Filters = slices.Clone(v.Filters)
	}
	return vars
}

// Shape returns the template with each variable replaced by "<>". Two templates of
// one shape can render to the same key: "lock:order:<userId>" and
// "lock:order:<orderId>" both have the shape "lock:order:<>".
func (t *Template) Shape() string {
	shape := t.literals[0]
	for _, literal := range t.literals[1:] {
		shape += "<>" + literal
	}
	return shape
}

// Resolve renders the key with the values that lookup finds. It calls lookup in
// order of appearance and stops at the first fault, which it returns as a [*ValueError];
// an error of lookup is its cause.
func (t *Template) Resolve(lookup Lookup) (string, error) {
	return t.render(func(v *variable) (string, error) { return lookup(v.Var) })
}

// Render renders the key from vars, which must hold a value for every variable of
// the template ([ErrMissing]) and no other name ([ErrUnknown]). The error is a
// [*ValueError].
func (t *Template) Render(vars Vars) (string, error) {
	key, err := t.render(func(v *variable) (string, error) { return vars[v.ref], nil })
	if err != nil {
		return "", err
	}
	// Each name of the template was found above, so a surplus is the only difference left.
	if len(vars) > len(t.names) {
		return "", &ValueError{Template: t.text, Var: t.unknown(vars), Err: ErrUnknown}
	}
	return key, nil
}

func (t *Template) unknown(vars Vars) string {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if _, ok := t.names[name]; !ok {
			return name
		}
	}
	return ""
}

func (t *Template) render(find func(*variable) (string, error)) (string, error) {
	var room [128]byte // for most keys
	key := append(room[:0], t.literals[0]...)
	for i := range t.vars {
		v := &t.vars[i]
		value, err := find(v)
		if err == nil {
			value, err = v.filter(value)
		}
		if err != nil {
			return "", &ValueError{Template: t.text, Var: v.ref, Err: err}
		}
		key = escape(key, value)
		key = append(key, t.literals[i+1]...)
		if len(key) > MaxKey {
			return "", &ValueError{Template: t.text, Err: ErrTooLong}
		}
	}
	return string(key), nil
}

// filter checks value and runs the filters over it.
func (v *variable) filter(value string) (string, error) {
	if value == "" {
		return "", ErrMissing
	}
	if len(value) > v.limit {
		return "", ErrTooLong
	}
	for _, apply := range v.filters {
		var ok bool
		if value, ok = apply(value); !ok {
			return "", ErrInvalid
		}
	}
	return value, nil
}

package key

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parser reads a template from left to right, once.
type parser struct {
	text     string
	pos      int
	literals []string
	vars     []variable

	open, close int // columns of the braces, 0 while there is none

	faults []*SyntaxError
}

func (p *parser) template() error {
	switch {
	case p.text == "":
		return p.fault(0, "it is empty")
	case len(p.text) > MaxTemplate:
		return p.fault(MaxTemplate, "it is longer than %d bytes", MaxTemplate)
	}
	for {
		p.literal()
		if p.pos == len(p.text) {
			if len(p.faults) == 0 { // what follows from another fault is none
				p.note(p.finish())
			}
			return p.err()
		}
		p.note(p.variable())
	}
}

// literal reads up to the next variable or the end.
func (p *parser) literal() {
	start := p.pos
	for ; p.pos < len(p.text) && p.text[p.pos] != '<'; p.pos++ {
		p.note(p.literalByte(p.text[p.pos]))
	}
	p.literals = append(p.literals, p.text[start:p.pos])
}

// note keeps a fault and goes on, so that a user gets all of them at once.
func (p *parser) note(err error) {
	if fault, ok := errors.AsType[*SyntaxError](err); ok {
		p.faults = append(p.faults, fault)
	}
}

// err is the first fault, which has the others.
func (p *parser) err() error {
	if len(p.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(p.faults, func(a, b *SyntaxError) int { return a.Column - b.Column })
	first := p.faults[0]
	first.more = p.faults[1:]
	return first
}

func (p *parser) literalByte(c byte) error {
	switch {
	case c == '>':
		return p.fault(p.pos, `">" closes no variable`)
	case c == '%':
		return p.fault(p.pos, `"%%" is kept for escaped values`)
	case c == '"', c == '`':
		return p.fault(p.pos, "%s is not allowed in a template: write it without quotes", quote(c))
	case c <= ' ', c > '~', c == '\\':
		return p.fault(p.pos, "%s is not allowed in a template", quote(c))
	case c == '{':
		if p.open != 0 {
			return p.fault(p.pos, `a second "{": only one hash tag is allowed`)
		}
		p.open = p.pos + 1
	case c == '}':
		return p.closeTag()
	}
	return nil
}

func (p *parser) closeTag() error {
	switch {
	case p.close != 0:
		return p.fault(p.pos, `a second "}": only one hash tag is allowed`)
	case p.open == 0:
		return p.fault(p.pos, `"}" closes no hash tag`)
	case p.open == p.pos:
		p.close = p.pos + 1
		return p.fault(p.pos, "the hash tag is empty")
	}
	p.close = p.pos + 1
	return nil
}

// finish checks what only the whole template can tell.
func (p *parser) finish() error {
	if p.open != 0 && p.close == 0 {
		return p.fault(p.open-1, `the hash tag is not closed, add "}"`)
	}
	if strings.Join(p.literals, "") == "" {
		return p.fault(0, `it has no literal part, start it with one, such as "lock:"`)
	}
	return nil
}

// variable reads "<" [ source "." ] name *( "|" filter ) ">".
func (p *parser) variable() error {
	start := p.pos
	size := strings.IndexByte(p.text[start:], '>')
	if size < 0 {
		p.pos = len(p.text)
		return p.fault(start, `the variable is not closed, add ">"`)
	}
	v := variable{Var: Var{Column: start + 1}, limit: MaxValue}
	if err := p.inside(&v); err != nil {
		p.pos = start + size + 1
		p.vars = append(p.vars, variable{})
		return err
	}
	p.pos++
	separated := p.separated(v)
	p.vars = append(p.vars, v)
	return separated
}

// inside reads what is between the brackets.
func (p *parser) inside(v *variable) error {
	p.pos++
	if err := p.name(v); err != nil {
		return err
	}
	for p.text[p.pos] == '|' {
		p.pos++
		if err := p.filter(v); err != nil {
			return err
		}
	}
	if c := p.text[p.pos]; c != '>' {
		return p.fault(p.pos, "%s is not allowed in a variable", quote(c))
	}
	return nil
}

// separated checks that v can't run into the variable in front of it.
func (p *parser) separated(v variable) error {
	if len(p.vars) == 0 {
		return nil
	}
	between := p.literals[len(p.literals)-1]
	if strings.ContainsFunc(between, func(r rune) bool { return isSeparator(byte(r)) }) {
		return nil
	}
	before := p.vars[len(p.vars)-1].ref
	if before == "" {
		return nil // that one is wrong in itself
	}
	if between == "" {
		return p.fault(v.Column-1, `nothing separates <%s> from <%s>, put ":" between them`, v.ref, before)
	}
	return p.fault(v.Column-1, `%q does not separate <%s> from <%s> because values may contain it, put ":" between them`,
		between, v.ref, before)
}

// name reads [ source "." ] ident *( "." ident ).
func (p *parser) name(v *variable) error {
	start := p.pos
	if err := p.ident("name"); err != nil {
		return err
	}
	first := p.text[start:p.pos]
	v.Name = first
	for p.text[p.pos] == '.' {
		if v.Source == "" && !slices.Contains(sources, first) {
			return p.fault(start, "unknown source %q, known are %s", first, knownSources())
		}
		v.Source = first
		p.pos++
		if err := p.ident("name"); err != nil {
			return err
		}
		v.Name = p.text[start+len(first)+1 : p.pos]
	}
	v.ref = p.text[start:p.pos]
	return nil
}

// ident reads a word. The variable is known to be closed, so the input can't end here.
func (p *parser) ident(what string) error {
	c := p.text[p.pos]
	switch {
	case c == '>' || c == '.' || c == '|':
		return p.fault(p.pos, "a %s is missing", what)
	case !isLetter(c) && c != '_':
		return p.fault(p.pos, `a %s starts with a letter or "_", not with %s`, what, quote(c))
	}
	for isLetter(c) || isDigit(c) || c == '_' || c == '-' {
		p.pos++
		c = p.text[p.pos]
	}
	return nil
}

// filter reads the name of one filter, the "|" in front of it is read.
func (p *parser) filter(v *variable) error {
	start := p.pos
	if err := p.ident("filter"); err != nil {
		return err
	}
	name := p.text[start:p.pos]
	apply, ok := filterNamed(name)
	if !ok {
		return p.fault(start, "unknown filter %q, known are %s", name, knownFilters)
	}
	if slices.Contains(v.Filters, name) {
		return p.fault(start, "filter %q is there twice", name)
	}
	if name == filterInt || name == filterUUID {
		for _, before := range v.Filters {
			if before != filterLower {
				return p.fault(start, "filter %q never accepts what %q returns", name, before)
			}
		}
	}
	if name == filterSHA256 {
		v.limit = MaxHashed
	}
	v.Filters = append(v.Filters, name)
	v.filters = append(v.filters, apply)
	return nil
}

// fault makes the error for the byte at offset.
func (p *parser) fault(offset int, format string, args ...any) error {
	return &SyntaxError{Template: p.text, Column: offset + 1, Reason: fmt.Sprintf(format, args...)}
}

// quote shows a byte, by its number when it isn't printable.
func quote(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf("byte 0x%02X", c)
	}
	return strconv.QuoteRune(rune(c))
}

// Package directive reads what stands behind //redlatch:lock: the one grammar
// that lockgen checks in source code and annotations compiles at run time.
//
//	directive = template *( blank option )
//	template  = as in package key, see Parse for what else a variable may be
//	option    = name "=" value
//	name      = wait lease mode onbusy name permits size
package directive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// Directive is one lock of a method.
type Directive struct {
	// Text is the directive as it was written, its words one blank apart.
	Text string
	// Rule is the lock. Its Key is canonical, see [Parse].
	Rule rule.Rule
	// Template is the Rule's Key.
	Template *key.Template
	// Vars are the variables in the order of the template.
	Vars []Var

	template word
	options  map[string]option
}

// Var is a variable of a directive.
type Var struct {
	key.Var        // as the canonical template has it
	Path    string // as the directive has it: "userID", "req.User.ID"
	At      int    // column of Path's first byte in the text, from 1
}

// Fault is one thing that is wrong with the directives of a method.
type Fault struct {
	Index  int // which of the directives
	Column int // byte in its text, from 1
	Reason string
}

type word struct {
	text   string
	column int
}

type option struct {
	word   // the value
	name   string
	column int // of the name
}

// Parse reads one directive.
//
// A variable is a parameter of the method or a path from there, so its first
// part may be any name, where [key.Parse] knows a few sources only. The
// canonical template puts the source req in front of the others:
// "<cmd.UserID>" becomes "<req.cmd.UserID>". Paths that start with a source
// stay, so that "<req.UserID>" is what it is everywhere.
//
// The faults are all that is wrong, in the order of their columns.
func Parse(text string) (*Directive, []Fault) {
	p := parser{options: make(map[string]option)}
	words := split(text)
	if len(words) == 0 {
		return nil, []Fault{{Column: len(text) + 1, Reason: `the template is missing, add one such as "lock:order:<userID>"`}}
	}
	if name, _, ok := strings.Cut(words[0].text, "="); ok && setters[name] != nil {
		p.fault(words[0].column, "the template comes first, and options such as %q behind it", words[0].text)
	} else {
		p.readTemplate(words[0])
		words = words[1:]
	}
	for _, w := range words {
		p.readOption(w)
	}
	p.check()
	if len(p.faults) > 0 {
		slices.SortStableFunc(p.faults, func(a, b Fault) int { return a.Column - b.Column })
		return nil, p.faults
	}
	p.Text = strings.Join(strings.Fields(text), " ")
	p.Directive.options = p.options
	return &p.Directive, nil
}

// split cuts a text into its words. Blanks are those of the Go compiler's
// directives.
func split(text string) []word {
	var words []word
	for start := 0; start < len(text); {
		if isBlank(text[start]) {
			start++
			continue
		}
		end := start
		for end < len(text) && !isBlank(text[end]) {
			end++
		}
		words = append(words, word{text[start:end], start + 1})
		start = end
	}
	return words
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

type parser struct {
	Directive
	options map[string]option
	faults  []Fault
}

func (p *parser) fault(column int, format string, args ...any) {
	p.faults = append(p.faults, Fault{Column: column, Reason: fmt.Sprintf(format, args...)})
}

func (p *parser) readTemplate(w word) {
	p.template = w
	c := canonical(w.text)
	template, err := key.Parse(c.text)
	var syntax *key.SyntaxError
	if errors.As(err, &syntax) {
		p.fault(w.column+c.original(syntax.Column)-1, "%s", c.plain(syntax.Reason))
		return
	}
	p.Template, p.Rule.Key = template, c.text
	for _, v := range template.Vars() {
		at := c.original(v.Column) + 1
		path := w.text[at-1:]
		p.Vars = append(p.Vars, Var{Var: v, Path: path[:strings.IndexAny(path, "|>")], At: w.column + at - 1})
	}
}

// setters read the value of an option into a rule. The text says what is
// wrong with it, "" if nothing is.
var setters = map[string]func(*rule.Rule, string) string{
	"wait":    func(r *rule.Rule, text string) string { return duration(&r.Wait, text) },
	"lease":   func(r *rule.Rule, text string) string { return duration(&r.Lease, text) },
	"permits": func(r *rule.Rule, text string) string { return number(&r.Permits, text) },
	"size":    func(r *rule.Rule, text string) string { return number(&r.Size, text) },
	"mode": func(r *rule.Rule, text string) string {
		var err error
		if r.Mode, err = lock.ParseMode(text); err != nil {
			return fmt.Sprintf("unknown mode %q, use exclusive, fair, read, write or semaphore", text)
		}
		return ""
	},
	"onbusy": func(r *rule.Rule, text string) string {
		var err error
		if r.OnBusy, err = rule.ParseOnBusy(text); err != nil {
			return fmt.Sprintf("unknown policy %q, use reject or skip", text)
		}
		return ""
	},
	"name": func(r *rule.Rule, text string) string {
		r.Name = text
		return ""
	},
}

const knownOptions = "wait, lease, mode, onbusy, name, permits, size"

func duration(to *time.Duration, text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Sprintf("%q is not a duration, write a number and its unit, such as 200ms or 5s", text)
	}
	*to = d
	return ""
}

func number(to *int, text string) string {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Sprintf("%q is not a whole number", text)
	}
	*to = n
	return ""
}

func (p *parser) readOption(w word) {
	name, value, ok := strings.Cut(w.text, "=")
	set := setters[name]
	switch {
	case !ok:
		p.fault(w.column, "%q is no option, write name=value; known are %s", w.text, knownOptions)
		return
	case set == nil:
		p.fault(w.column, "unknown option %q, known are %s", name, knownOptions)
		return
	}
	if _, twice := p.options[name]; twice {
		p.fault(w.column, "option %q is there twice", name)
		return
	}
	o := option{word{value, w.column + len(name) + 1}, name, w.column}
	p.options[name] = o
	if value == "" {
		p.fault(o.word.column, "option %q has no value", name)
	} else if reason := set(&p.Rule, value); reason != "" {
		p.fault(o.word.column, "%s", reason)
	}
}

// check has the rule as a whole checked, for what it says of single options
// and of those that do not go together.
func (p *parser) check() {
	r := p.Rule
	if p.Template == nil {
		r.Key = "lock" // what is wrong with the template is known
	}
	_, err := r.Compile()
	var faults rule.Faults
	errors.As(err, &faults)
	unread := p.unread()
	for _, f := range faults {
		name := strings.ToLower(f.Field)
		ofPermits := name == "size" || name == "permits"
		if unread[name] || ofPermits && (unread["mode"] || unread["size"]) {
			continue // it follows from what is wrong already
		}
		column := p.template.column
		if o, given := p.options[name]; given {
			column = o.word.column
		} else if o, given := p.options["mode"]; given {
			column = o.word.column // it asks for what is missing
		}
		p.fault(column, "%s %s", name, f.Reason)
	}
}

// unread are the options whose value could not be read.
func (p *parser) unread() map[string]bool {
	names := make(map[string]bool)
	for name, o := range p.options {
		names[name] = slices.ContainsFunc(p.faults, func(f Fault) bool { return f.Column == o.word.column })
	}
	return names
}

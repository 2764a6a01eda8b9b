// Package directive reads what stands behind //redlatch:lock: a rule in the
// string form that it has everywhere (see [rule.ParseRule]), whose variables may
// be paths from any parameter. lockgen checks it in source code, and annotations
// compiles it at run time.
package directive

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Directive is one lock of a method.
type Directive struct {
	*rule.Parsed
	// Source is the directive as it was written, Written its template.
	Source, Written string
	// Vars are the variables in the order of the template.
	Vars []Var
}

// Var is a variable of a directive.
type Var struct {
	key.Var        // as the canonical template has it
	Path    string // as the directive has it: "userID", "req.User.ID"
	At      int    // column of Path's first byte in the source, from 1
}

// Fault is one thing that is wrong with the directives of a method.
type Fault struct {
	Index  int // which of the directives
	Column int // byte in its source, from 1
	Reason string
}

// Parse reads one directive.
//
// A variable is a parameter of the method or a path from there, so its first
// part may be any name, where [key.Parse] knows a few sources only. The
// canonical template puts the source req in front of the others:
// "<cmd.UserID>" becomes "<req.cmd.UserID>". Paths that start with a source
// stay, so that "<req.UserID>" is what it is everywhere.
//
// The faults are all that is wrong, in the order of their columns. With faults the
// directive has the variables that could be read.
func Parse(source string) (*Directive, []Fault) {
	d := &Directive{Source: strings.TrimSpace(source)}
	var c rule.Paths
	parsed, wrong := rule.ParseWith(source, func(template string) (string, func(int) int) {
		d.Written, c = template, rule.ReadPaths(template)
		return c.Canonical(), c.Original
	})
	if len(wrong) > 0 {
		faults := make([]Fault, len(wrong))
		for i, f := range wrong {
			faults[i] = Fault{Column: f.Column, Reason: c.Plain(reason(f))}
		}
		if d.Parsed = parsed; parsed.Template == nil {
			d.guess(c)
		} else {
			d.read(c)
		}
		return d, faults
	}
	d.Parsed = parsed
	d.read(c)
	return d, nil
}

var variable = regexp.MustCompile(`<[^<>]*>`)

// guess notes the variables of a template that is wrong somewhere else.
func (d *Directive) guess(c rule.Paths) {
	for _, at := range variable.FindAllStringIndex(c.Canonical(), -1) {
		t, err := key.Parse("x:" + c.Canonical()[at[0]:at[1]])
		if err != nil {
			continue
		}
		v := t.Vars()[0]
		v.Column = at[0] + 1
		d.add(v, c)
	}
}

// read notes the variables of the template.
func (d *Directive) read(c rule.Paths) {
	for _, v := range d.Template.Vars() {
		d.add(v, c)
	}
}

func (d *Directive) add(v key.Var, c rule.Paths) {
	at := c.Original(v.Column) + 1
	path := d.Written[at-1:]
	d.Vars = append(d.Vars, Var{Var: v, Path: path[:strings.IndexAny(path, "|>")], At: d.TemplateColumn + at - 1})
}

// reason is what a fault says, without the place.
func reason(f rule.Fault) string {
	if f.Field == "" || f.Field == "key" {
		return f.Reason
	}
	return fmt.Sprintf("%s: %s", f.Field, f.Reason)
}

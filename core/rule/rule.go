package rule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
)

// Rule says which lock an operation takes, and how. It is plain data; [Rule.Compile]
// and [NewSet] check it.
type Rule struct {
	// Operation names what the lock is for, as its integration does: "POST
	// /vouchers/:id/orders", "/shop.v1.Stock/Refill". A rule of a set needs one.
	Operation string

	// Key is the template of the lock's key, see [key].
	Key string

	// Mode is the kind of lock. Defaults to [lock.Exclusive].
	Mode lock.Mode

	// Size is how many permits a [lock.Semaphore] has, and Permits how many of
	// them the operation takes; Permits defaults to 1. Other modes have neither. Rules of
	// a set that have one Key have one Size.
	// Rules that are written down have one field for both, permits: "1/3".
	Size, Permits int

	// Wait is how long to wait for the lock. Defaults to 0: try once. There is no
	// value for "forever"; a negative one is invalid.
	Wait time.Duration

	// Timeout is how long one call to the store may take, as of
	// [lock.WithCallTimeout]. Defaults to 0: what the locker says.
	Timeout time.Duration

	// MaxWaiters is how many may wait for one key of the rule in one process at a
	// time; one more is refused at once. Defaults to 0: what the locker says.
	MaxWaiters int

	// Lease is how long the lock is held at most. Defaults to 0: as long as the
	// work runs, kept alive by the watchdog. Otherwise at least [lock.MinLease].
	Lease time.Duration

	// MinHold is how long the lock stays held at least, also if the work ends before,
	// as of [lock.WithMinHold]. Defaults to 0: what the locker says. Otherwise at least
	// [lock.MinLease], and not longer than Lease and MaxHold.
	MinHold time.Duration

	// MaxHold is how long the lock is held at most however the watchdog renews it.
	// Defaults to 0: what the locker says. Otherwise at least [lock.MinLease].
	MaxHold time.Duration

	// OnBusy says what happens when another owner holds the lock. Defaults to [Reject].
	OnBusy OnBusy

	// Name stands for the rule in metrics and logs, so it must not hold anything
	// of a request. Defaults to Key.
	Name string

	// Overlaps says that the rule is meant to share keys with rules whose
	// templates spell the same shape with other variables, see [Overlap].
	Overlaps bool

	// Also says that the operation has another rule as well and takes the locks of both,
	// see [Join]. Without it a second rule for an operation is a fault. One of the two
	// says so.
	Also bool

	// Optional says that the operation need not exist, for rules that several
	// services share. Nobody has to serve it.
	Optional bool
}

// Compiled is a checked rule, with its defaults filled in and its template parsed.
// Don't change it.
type Compiled struct {
	Rule
	Template *key.Template

	options []lock.Option
}

// Options returns the options with which a locker acquires the rule's lock. They include
// the wait, so that [lock.Locker.Acquire] tries once where the rule has none.
// The slice must not be changed.
func (c *Compiled) Options() []lock.Option {
	if c.options == nil {
		return c.Rule.options() // not made by Compile
	}
	return c.options
}

func (r *Rule) options() []lock.Option {
	options := []lock.Option{lock.WithName(r.Name), lock.WithWait(r.Wait)}
	if r.Mode != lock.Semaphore { // permits are a mode
		options = append(options, lock.WithMode(r.Mode))
	}
	for i := range fields {
		if fields[i].option == nil {
			continue
		}
		if option := fields[i].option(r); option != nil {
			options = append(options, option)
		}
	}
	return options
}

// Compile checks the rule. The error is [Faults] with everything that is wrong.
// A rule without Operation compiles, for it may be used without a [Set].
func (r Rule) Compile() (*Compiled, error) {
	compiled, problems := r.compile()
	var faults Faults
	for _, p := range problems {
		faults = append(faults, Fault{Operation: r.Operation, Field: p.field, Reason: p.reason})
	}
	if err := faults.err(); err != nil {
		return nil, err
	}
	return compiled, nil
}

// problem is a fault without its place.
type problem struct {
	field, reason string
	column        int // in the value of the field, from 1; 0: the field as a whole
}

func (r Rule) compile() (*Compiled, []problem) {
	var problems []problem
	if r.Mode == lock.Semaphore && r.Permits == 0 {
		r.Permits = 1
	}
	template, wrong := r.template()
	for i := range fields {
		f := &fields[i]
		if f.Name == fieldKey && wrong != nil {
			problems = append(problems, wrong...)
		} else if reason := f.check(&r); reason != "" {
			problems = append(problems, problem{field: f.Name, reason: reason})
		}
	}
	if r.Name == "" {
		r.Name = r.Key
	}
	return &Compiled{Rule: r, Template: template, options: r.options()}, problems
}

// template reads the key. The variables of a method are spelled as its directives do.
func (r *Rule) template() (*key.Template, []problem) {
	if r.Key == "" {
		return nil, []problem{{field: fieldKey, reason: `is missing, add a template such as "lock:order:<userId>"`}}
	}
	paths := Paths{text: r.Key}
	if shape, err := ShapeOf(r.Operation); err == nil && shape == Method {
		paths = ReadPaths(r.Key)
	}
	template, err := key.Parse(paths.Canonical())
	var syntax *key.SyntaxError
	if errors.As(err, &syntax) {
		var wrong []problem
		for _, fault := range syntax.All() {
			column := paths.Original(fault.Column)
			reason := fmt.Sprintf("%.300q, column %d: %s", r.Key, column, paths.Plain(fault.Reason))
			wrong = append(wrong, problem{field: fieldKey, reason: reason, column: column})
		}
		return nil, wrong
	}
	if wrong := lookalike(template, r.Key, r.Operation); wrong != nil {
		return template, []problem{*wrong}
	}
	return template, nil
}

// presentable reports whether text may stand in a log line as it is.
func presentable(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
}

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
	// Operation names what the lock is for, as its front end does: "POST
	// /vouchers/:id/orders", "/shop.v1.Stock/Refill". A rule of a set needs one.
	Operation string

	// Key is the template of the lock's key, see [key].
	Key string

	// Mode is the kind of lock. Defaults to [lock.Exclusive].
	Mode lock.Mode

	// Size is how many permits a [lock.Semaphore] has, and Permits how many of
	// them the operation takes; Permits defaults to 1. Other modes have neither.
	Size, Permits int

	// Wait is how long to wait for the lock. Defaults to 0: try once. There is no
	// value for "forever"; a negative one is invalid.
	Wait time.Duration

	// MaxWaiters is how many may wait for one key of the rule in one process at a
	// time; one more is refused at once. Defaults to 0: what the locker says.
	MaxWaiters int

	// Lease is how long the lock is held at most. Defaults to 0: as long as the
	// work runs, kept alive by the watchdog. Otherwise at least [lock.MinLease].
	Lease time.Duration

	// MaxHold is how long the lock is held at most however the watchdog renews it.
	// Defaults to 0: what the locker says. Otherwise at least [lock.MinLease].
	MaxHold time.Duration

	// OnBusy says what happens when another owner holds the lock. Defaults to [Reject].
	OnBusy OnBusy

	// Name stands for the rule in metrics and logs, so it must not hold anything
	// of a request. Defaults to the text of Key.
	Name string

	// Overlaps says that the rule is meant to share keys with rules whose
	// templates spell the same shape with other variables, see [Overlap].
	Overlaps bool
}

// Compiled is a rule that was checked, with its defaults filled in and its
// template parsed. It must not be changed.
type Compiled struct {
	Rule
	Template *key.Template

	options []lock.Option
}

// Options are what an acquisition asks of a locker for the rule. They include
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
	if r.Mode == lock.Semaphore {
		options = append(options, lock.WithPermits(r.Permits, r.Size))
	} else {
		options = append(options, lock.WithMode(r.Mode))
	}
	if r.Lease > 0 {
		options = append(options, lock.WithLease(r.Lease))
	}
	if r.MaxWaiters > 0 {
		options = append(options, lock.WithMaxWaiters(r.MaxWaiters))
	}
	if r.MaxHold > 0 {
		options = append(options, lock.WithMaxHold(r.MaxHold))
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
	column        int // in the text of the field, from 1; 0: the field as a whole
}

const (
	fieldOperation  = "operation"
	fieldKey        = "key"
	fieldMode       = "mode"
	fieldPermits    = "permits"
	fieldSize       = "size"
	fieldWait       = "wait"
	fieldLease      = "lease"
	fieldMaxWaiters = "maxWaiters"
	fieldMaxHold    = "maxHold"
	fieldOnBusy     = "onBusy"
	fieldName       = "name"
	fieldOverlaps   = "overlaps"
)

func (r Rule) compile() (*Compiled, []problem) {
	var problems []problem
	report := func(field, format string, args ...any) {
		problems = append(problems, problem{field: field, reason: fmt.Sprintf(format, args...)})
	}

	if !presentable(r.Operation) {
		report(fieldOperation, "%.300q has a control byte or a space at its ends, remove it", r.Operation)
	}
	template, fault := parseKey(r.Key)
	if fault != nil {
		problems = append(problems, *fault)
	}
	if !r.Mode.Valid() {
		report(fieldMode, "unknown %v, use exclusive, fair, read, write or semaphore", r.Mode)
	}
	if r.Mode == lock.Semaphore && r.Permits == 0 {
		r.Permits = 1
	}
	switch {
	case r.Mode != lock.Semaphore && r.Size != 0:
		report(fieldSize, "is for mode semaphore, remove it or set the mode")
	case r.Mode != lock.Semaphore && r.Permits != 0:
		report(fieldPermits, "is for mode semaphore, remove it or set the mode")
	case r.Mode == lock.Semaphore && r.Size < 1:
		report(fieldSize, "%d is no size of a semaphore, say how many permits there are, at least 1", r.Size)
	case r.Mode == lock.Semaphore && (r.Permits < 1 || r.Permits > r.Size):
		report(fieldPermits, "%d cannot be taken of a semaphore of %d, use 1 to %d", r.Permits, r.Size, r.Size)
	}
	if r.Wait < 0 {
		report(fieldWait, "%v is negative, use 0 to try once or the longest time to wait", r.Wait)
	}
	switch {
	case r.Lease < 0:
		report(fieldLease, "%v is negative, use 0 for a lease that the watchdog keeps alive", r.Lease)
	case r.Lease > 0 && r.Lease < lock.MinLease:
		report(fieldLease, "%v is too short to hold a lock, use at least %v, or 0 for the watchdog", r.Lease, lock.MinLease)
	}
	if r.MaxWaiters < 0 {
		report(fieldMaxWaiters, "%d is negative, use 0 for no limit of the rule's own", r.MaxWaiters)
	}
	if r.MaxHold < 0 || r.MaxHold > 0 && r.MaxHold < lock.MinLease {
		report(fieldMaxHold, "%v is too short to hold a lock, use at least %v, or 0 for no limit of the rule's own", r.MaxHold, lock.MinLease)
	}
	if !r.OnBusy.Valid() {
		report(fieldOnBusy, "unknown %v, use reject or skip", r.OnBusy)
	}
	if !presentable(r.Name) {
		report(fieldName, "%.300q has a control byte or a space at its ends, remove it", r.Name)
	}

	if r.Name == "" {
		r.Name = r.Key
	}
	return &Compiled{Rule: r, Template: template, options: r.options()}, problems
}

func parseKey(text string) (*key.Template, *problem) {
	if text == "" {
		return nil, &problem{field: fieldKey, reason: `is missing, add a template such as "lock:order:<userId>"`}
	}
	template, err := key.Parse(text)
	var syntax *key.SyntaxError
	if errors.As(err, &syntax) {
		reason := fmt.Sprintf("%.300q, column %d: %s", text, syntax.Column, syntax.Reason)
		return nil, &problem{field: fieldKey, reason: reason, column: syntax.Column}
	}
	return template, nil
}

// presentable reports whether text may stand in a log line as it is.
func presentable(text string) bool {
	return strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
}

package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// DefaultMaxBody is the largest body that is read for a key, in bytes, unless
// a door is told otherwise.
const DefaultMaxBody = 1 << 20

// Config are the settings of a middleware whose door knows a request as a C.
// The setters are called as the options of the doors are: they note what is
// wrong, for [Config.Err] to report all of it. Make one with [NewConfig].
type Config[C any] struct {
	Answers

	Vars    map[string]func(C) (string, error) // bare variables that are bound to a source
	KeyFunc func(C) (string, error)            // makes the key in place of a template
	Skip    func(C) bool                       // lets requests pass without the lock
	MaxBody int64                              // largest body that is read for a key
	Preread bool                               // read the body even if the key does not need it

	door, framework string
	rule            rule.Rule
	ruled           []string // options that are part of a rule
	faults          []error
}

// NewConfig returns the defaults. What is wrong with the settings is reported
// in the name of door, a package, and of the framework that it serves.
func NewConfig[C any](door, framework string) Config[C] {
	return Config[C]{
		Answers: DefaultAnswers(),
		Vars:    make(map[string]func(C) (string, error)),
		MaxBody: DefaultMaxBody,
		door:    door, framework: framework,
	}
}

// Fault notes that something is wrong.
func (c *Config[C]) Fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(c.door+": "+format, args...))
}

// Err is everything that is wrong, nil if nothing is.
func (c *Config[C]) Err() error { return errors.Join(c.faults...) }

// setRule changes the rule, for an option that a rule has a field for.
func (c *Config[C]) setRule(option string, set func(*rule.Rule)) {
	c.ruled = append(c.ruled, option)
	set(&c.rule)
}

// SetWait is the option WithWait.
func (c *Config[C]) SetWait(d time.Duration) {
	c.setRule("WithWait", func(r *rule.Rule) { r.Wait = d })
}

// SetLease is the option WithLease.
func (c *Config[C]) SetLease(d time.Duration) {
	c.setRule("WithLease", func(r *rule.Rule) { r.Lease = d })
}

// SetMode is the option WithMode.
func (c *Config[C]) SetMode(m lock.Mode) {
	c.setRule("WithMode", func(r *rule.Rule) { r.Mode = m })
}

// SetPermits is the option WithPermits.
func (c *Config[C]) SetPermits(n, size int) {
	c.setRule("WithPermits", func(r *rule.Rule) { r.Mode, r.Permits, r.Size = lock.Semaphore, n, size })
}

// SetOnBusy is the option WithOnBusy.
func (c *Config[C]) SetOnBusy(b rule.OnBusy) {
	c.setRule("WithOnBusy", func(r *rule.Rule) { r.OnBusy = b })
}

// SetName is the option WithName.
func (c *Config[C]) SetName(name string) {
	c.setRule("WithName", func(r *rule.Rule) { r.Name = name })
}

// SetKeyFunc is the option WithKeyFunc.
func (c *Config[C]) SetKeyFunc(f func(C) (string, error)) {
	c.ruled = append(c.ruled, "WithKeyFunc")
	if f == nil {
		c.Fault("WithKeyFunc: the func is nil")
	}
	c.KeyFunc = f
}

// SetVar is the option WithVar.
func (c *Config[C]) SetVar(name string, source func(C) (string, error)) {
	if source == nil {
		c.Fault("WithVar(%q): the source is nil", name)
	}
	if (key.Var{Name: name}).Reserved() {
		c.Fault("WithVar(%q): the name is reserved", name)
	}
	c.Vars[name] = source
}

// SetContention is the option WithContentionStatus.
func (c *Config[C]) SetContention(status int) {
	switch status {
	case http.StatusConflict, http.StatusLocked, http.StatusTooManyRequests:
		c.Contention = status
	default:
		c.Fault("WithContentionStatus(%d): use 409, 423 or 429", status)
	}
}

// SetRetryAfter is the option WithRetryAfter.
func (c *Config[C]) SetRetryAfter(d time.Duration) {
	if d <= 0 {
		c.Fault("WithRetryAfter(%v): must be positive", d)
	}
	c.RetryAfter = d
}

// SetMaxBody is the option WithMaxBody.
func (c *Config[C]) SetMaxBody(n int64) { c.limitBody("WithMaxBody", n) }

// SetPreread is the option WithPrereadBody.
func (c *Config[C]) SetPreread(n int64) {
	c.limitBody("WithPrereadBody", n)
	c.Preread = true
}

func (c *Config[C]) limitBody(option string, n int64) {
	if n <= 0 {
		c.Fault("%s(%d): must be positive", option, n)
	}
	c.MaxBody = n
}

// CheckGuard notes a fault if there is no guard.
func (c *Config[C]) CheckGuard(g *guard.Guard) {
	if g == nil {
		c.Fault("guard is nil")
	}
}

package leader

import "github.com/redlatch/redlatch/core/lock"

// Option is a setting of [Run].
type Option func(*options)

type options struct {
	name   string
	lock   []lock.Option
	repeat bool
	hooks  Hooks
}

func newOptions(opts []Option) options {
	// A locker's limits are for work that ends, and a term and a candidate have none.
	o := options{hooks: logging(), lock: []lock.Option{
		lock.WithMaxHold(0), lock.WithWait(lock.MaxDuration), lock.WithMaxWait(lock.MaxDuration),
	}}
	for _, apply := range opts {
		if apply == nil {
			o.lock = append(o.lock, nil) // which the locker refuses
			continue
		}
		apply(&o)
	}
	if o.name != "" {
		o.lock = append(o.lock, lock.WithName(o.name))
	}
	o.lock = append(o.lock, lock.WithMode(lock.Exclusive), lock.WithoutReentry())
	return o
}

// WithName names the office for hooks and metrics, which must not carry keys; it
// is also the name of the lock ([lock.WithName]).
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithLock sets options of the lock. [lock.WithWatchdog] sets how long a leader
// that died keeps others waiting; [lock.WithMaxHold] and [lock.WithLease] are how
// long a term lasts at most: at its end it is lost. [lock.WithWait] and
// [lock.WithMaxWait] end one attempt, which fails, after which Run makes the next.
// The mode is always [lock.Exclusive].
//
// Of these, the defaults of the locker count as well, except WithMaxHold, WithWait
// and WithMaxWait: they bound ordinary work. So terms on a locker whose default is a
// WithLease end with it, unless WithWatchdog is set here.
func WithLock(opts ...lock.Option) Option {
	return func(o *options) { o.lock = append(o.lock, opts...) }
}

// WithRepeat makes [Run] campaign again after its func has returned, whatever
// the func returned, with a pause in which others can be elected. Run then ends
// with its context or its locker only. The func's error goes to [Hooks.Resigned], and
// nowhere else.
func WithRepeat() Option { return func(o *options) { o.repeat = true } }

// WithHooks sets the hooks that observe the candidate, instead of the lines that it logs
// by default.
func WithHooks(h Hooks) Option { return func(o *options) { o.hooks = h } }

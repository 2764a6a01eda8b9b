package lock

import (
	"fmt"
	"time"
)

// Defaults of a locker.
const (
	// DefaultWatchdog is the lease that the watchdog renews, every third of
	// it, as in Redisson.
	DefaultWatchdog = 30 * time.Second
	// DefaultMargin is how long before the end of the store's TTL a lease is no
	// longer trusted, besides one per cent of the TTL.
	DefaultMargin = 2 * time.Millisecond
	// DefaultPoll bounds how long a waiter relies on wake-ups alone.
	DefaultPoll = time.Second
	// DefaultCallTimeout bounds one call to the store.
	DefaultCallTimeout = 2 * time.Second
	// DefaultHandoffs is how many times a hold passes from caller to caller of a
	// process before other processes get a turn: as often as fences have room for.
	// Where callers do some work, [DefaultHandoffTime] ends most runs first.
	DefaultHandoffs = FenceStep - 1
	// DefaultHandoffTime bounds the same in time.
	DefaultHandoffTime = 10 * time.Millisecond
	// MinLease is the shortest lease and watchdog interval.
	MinLease = 10 * time.Millisecond
	// MaxKeyBytes is the longest key.
	MaxKeyBytes = 4096
	// MaxDuration is the longest duration of any setting and of [Lease.Extend].
	// Deadlines of contexts may be later.
	MaxDuration = 365 * 24 * time.Hour
	// MaxPermits is the largest size of a semaphore, and so the most permits
	// that one acquisition can take.
	MaxPermits = 4096
)

// maxAcquireTTL is the longest TTL that an acquire writes, and so how long a
// call that runs after everybody has forgotten it can keep a key.
const maxAcquireTTL = 30 * time.Second

// Option is a setting of a locker or of one acquisition: given to [New] it is
// the default, given to a call it overrides. A wrong value makes New panic
// and a call fail with [ErrInvalid], as does an option that is only for New. No duration may exceed [MaxDuration].
type Option func(*options)

type options struct {
	mode        Mode
	waitSet     bool
	noReentry   bool
	wait        time.Duration
	lease       time.Duration // 0: watchdog
	watchdog    time.Duration
	margin      time.Duration
	poll        time.Duration
	callTimeout time.Duration // 0 until New sets its default
	minHold     time.Duration
	handoffs    uint64
	handoffTime time.Duration
	limits      limits
	permits     int
	size        int
	name        string
	hooks       *Hooks
	identity    *Identity
	ofNew       bool // they are given to New
	err         error
}

func defaultOptions() *options {
	return &options{
		watchdog: DefaultWatchdog, margin: DefaultMargin, poll: DefaultPoll,
		handoffs: DefaultHandoffs, handoffTime: DefaultHandoffTime,
		hooks: new(Hooks), ofNew: true,
	}
}

// with returns o changed by opts; the first wrong value is the error.
func (o *options) with(opts []Option) (*options, error) {
	changed := *o
	return &changed, changed.apply(opts)
}

// apply changes o by opts; the first wrong value is the error.
func (o *options) apply(opts []Option) error {
	for _, apply := range opts {
		if apply == nil {
			o.reject("an option is nil")
			continue
		}
		apply(o)
	}
	if o.mode == Semaphore && o.size == 0 {
		o.reject("WithMode(Semaphore): use WithPermits, which sets the size")
	}
	if o.minHold > 0 {
		o.checkMinHold()
	}
	if ttl := o.acquireTTL(); ttl <= 2*o.margin {
		o.reject("WithMargin(%v): a lease of %v, which is what an acquire writes, must be longer than twice the margin", o.margin, ttl)
	}
	return o.err
}

// forNew applies what is given to New. A call that takes as long as the watchdog would
// be waited for while the lease that it renews ends.
func (o *options) forNew(opts []Option) error {
	_ = o.apply(opts)
	switch {
	case o.callTimeout == 0:
		o.callTimeout = min(DefaultCallTimeout, o.watchdog/2)
	case o.callTimeout >= o.watchdog:
		o.reject("WithCallTimeout(%v): must be below the watchdog of %v, at most a third of it is usual", o.callTimeout, o.watchdog)
	}
	o.ofNew = false
	return o.err
}

// ttl is what a hold lasts in the store without renewal.
func (o *options) ttl() time.Duration {
	ttl := o.watchdog
	if o.lease > 0 {
		ttl = o.lease
	}
	ttl = max(ttl, o.minHold) // the end of the process must not cut it short
	if o.limits.hold > 0 {
		ttl = min(ttl, o.limits.hold)
	}
	return ttl
}

// duration checks the argument of the option of that name. cure is what else
// may be done where it is too short.
func (o *options) duration(option string, d, least time.Duration, cure string) {
	if o.err == nil {
		o.err = checkDuration(option, d, least, cure)
	}
}

// checkDuration refuses durations that are out of range.
func checkDuration(of string, d, least time.Duration, cure string) error {
	switch {
	case d < least:
		return fmt.Errorf("%w: %s(%v): must be at least %v%s", ErrInvalid, of, d, least, cure)
	case d > MaxDuration:
		return fmt.Errorf("%w: %s(%v): must be at most %v (a year)", ErrInvalid, of, d, MaxDuration)
	}
	return nil
}

// acquireTTL is the TTL that an acquire sets. What needs longer is extended
// once it is granted.
func (o *options) acquireTTL() time.Duration { return min(o.ttl(), maxAcquireTTL) }

// onlyForNew refuses the option of that name in a call, which couldn't keep it.
func (o *options) onlyForNew(option string) {
	if !o.ofNew {
		o.reject("%s: is only for New, as it is of the locker and not of one call", option)
	}
}

func (o *options) reject(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
}

// WithMode sets the kind of lock. Default [Exclusive].
func WithMode(m Mode) Option {
	return func(o *options) {
		if !m.Valid() {
			o.reject("WithMode(%d): unknown mode", uint8(m))
		}
		o.mode = m
	}
}

// WithPermits makes the key a semaphore of that size, and takes n permits of it,
// all or none. All users of the key must give the same size: one that differs from that of
// permits which the locker holds is refused with [ErrInvalid]. The permits are free
// again when the lease is released, or when it expires because its holder died. A
// semaphore does not re-enter: each acquisition takes its own permits. So take all that the
// work needs at once: two callers that hold some and ask for more wait for each other.
func WithPermits(n, size int) Option {
	return func(o *options) {
		if n < 1 || size < n || size > MaxPermits {
			o.reject("WithPermits(%d, %d): needs 1 <= n <= size <= %d", n, size, MaxPermits)
		}
		o.mode, o.permits, o.size = Semaphore, n, size
	}
}

// WithoutReentry makes an acquisition whose context already holds the key fail with
// [ErrOwnHold] at once, instead of re-entering.
func WithoutReentry() Option { return func(o *options) { o.noReentry = true } }

// WithWait bounds how long [Locker.Acquire] waits for other owners, in addition
// to its context. It does not end a call to the store, which [WithCallTimeout]
// does: a key that is free is granted however short d is. 0 tries once, as
// [Locker.TryAcquire] does. Default: until the context ends.
func WithWait(d time.Duration) Option {
	return func(o *options) {
		o.duration("WithWait", d, 0, "; 0 tries once")
		o.wait, o.waitSet = d, true
	}
}

// WithLease sets a fixed length for the lease, which is then not renewed: after d
// the key is free again, whether or not the work is done, and the lease is lost.
// Leases that share a hold end with it: while one of them has a watchdog it is renewed,
// and nothing shortens what the longest has asked of the store. At least [MinLease].
func WithLease(d time.Duration) Option {
	return func(o *options) {
		o.duration("WithLease", d, MinLease, "")
		o.lease = d
	}
}

// WithWatchdog sets the length of a lease that is renewed every d/3 for as long as
// it is held: the key of a dead process is free within d. Default
// [DefaultWatchdog]; at least [MinLease]. Of leases that share a hold the longest
// counts, until it is released; the hold then lasts what is left of it, or as long as the
// others ask for. It overrides an earlier [WithLease].
func WithWatchdog(d time.Duration) Option {
	return func(o *options) {
		o.duration("WithWatchdog", d, MinLease, "")
		o.watchdog, o.lease = d, 0
	}
}

// WithMargin sets how long before its end in the store a lease is no longer
// trusted, in addition to one percent of its length for clocks that run at different
// rates. The margin is the time that work has to notice that its context has ended,
// because timers are late on a busy machine. A lease must be longer than twice the
// margin, and the margin below 15 s, because an acquire writes 30 s at most. Only for
// [New]. Default [DefaultMargin].
func WithMargin(d time.Duration) Option {
	return func(o *options) {
		o.onlyForNew("WithMargin")
		o.duration("WithMargin", d, DefaultMargin, "")
		o.margin = d
	}
}

// WithName gives the lock a name of low cardinality (a template, a rule) for
// hooks: metrics must not carry keys.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithPoll bounds how long a waiter sleeps without calling the store, so that
// a lost wake-up costs at most d. So does one that there never is: a release of a reader, a
// writer or permits doesn't wake who waits for an exclusive lock, for example. Default
// [DefaultPoll].
func WithPoll(d time.Duration) Option {
	return func(o *options) {
		o.duration("WithPoll", d, time.Millisecond, "")
		o.poll = d
	}
}

// WithCallTimeout bounds one call to the store. A call that takes longer is
// abandoned, and undone if it takes effect later. For a locker or one acquisition;
// releases and renewals use the locker's. That of [New] must be below the watchdog there;
// its default is [DefaultCallTimeout], or half of a shorter watchdog.
func WithCallTimeout(d time.Duration) Option {
	return func(o *options) {
		o.duration("WithCallTimeout", d, time.Millisecond, "")
		o.callTimeout = d
	}
}

// WithHandoff sets how often a released key passes to the next waiting caller of the
// same locker without a call to the store: up to count times in a row, at most 63,
// and not once d has passed since the store granted the key. Then the key is released
// in the store, and if others listen for it, the callers here wait until those may have
// called: at first for a millisecond, and for up to 100 if they are too far away for that.
// If none wants the key, they do so less and less often. A store that cannot say who
// listens gets the millisecond.
//
// A key passes only in the modes [Exclusive] and [Write], in stores that leave room
// for the fences (not with the tokens of Redisson), and from one lease with a watchdog
// to another of the same length. Neither may be extended (as each lease of more than 30 s
// is) or bounded by [WithMaxHold].
//
// A count of 0 turns it off. Only for [New]. Default [DefaultHandoffs] and
// [DefaultHandoffTime].
func WithHandoff(count int, d time.Duration) Option {
	return func(o *options) {
		o.onlyForNew("WithHandoff")
		o.duration("WithHandoff", d, 0, "")
		if count < 0 || count >= FenceStep {
			o.reject("WithHandoff(%d, %v): the count must be 0 to %d", count, d, FenceStep-1)
		}
		o.handoffs, o.handoffTime = uint64(max(0, count)), d
	}
}

// WithHooks adds hooks that observe the locker. Only for [New]. It may be given
// several times: all hooks are called, in that order.
func WithHooks(h Hooks) Option {
	return func(o *options) {
		o.onlyForNew("WithHooks")
		o.hooks = o.hooks.join(&h)
	}
}

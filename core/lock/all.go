package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Request is one key of [AcquireAll]; [Locker.Request] makes it.
type Request struct {
	locker *Locker
	key    string
	opts   []Option
}

// Request makes a request for key, to be passed to [AcquireAll].
func (l *Locker) Request(key string, opts ...Option) Request {
	return Request{locker: l, key: key, opts: opts}
}

// Leases are the leases of an [AcquireAll]. When one is lost, [Leases.Context] ends,
// and with it the leases that were acquired later. The others stay until they are released.
type Leases struct {
	leases []*Lease // in the order in which they were acquired
}

// AcquireAll acquires all keys or none. The keys may belong to different lockers.
// They are taken in the order of their names, so that two callers with overlapping
// keys cannot block each other. Each key takes one call to the store, one after the
// other.
//
// A key that is named twice is re-entered. Permits of one key are taken together, as
// one lease: of options that differ the last counts. Such requests are refused with
// [ErrInvalid] if their lockers differ, because no order is defined for the two, and
// with [ErrOwnHold] if there are not enough permits for both. A lock and permits of one
// key are refused with [ErrInvalid].
//
// ctx bounds the whole; so does the shortest [WithWait] or [WithMaxWait] among the
// requests. If a key can't be acquired, the ones acquired before are released (in the
// background as soon as the store doesn't answer one release), and
// the error is that of the key, as [Locker.Acquire] describes it. A fixed lease
// gets its full length when all keys are held. If it ends while later keys are waited
// for, the error wraps [ErrLost] and says so: it must be longer than the wait.
func AcquireAll(ctx context.Context, requests ...Request) (*Leases, error) {
	if len(requests) == 0 {
		return nil, &Error{Op: "acquire all", Err: fmt.Errorf("%w: no requests", ErrInvalid)}
	}
	parts, err := inOrder(requests)
	if err != nil {
		return nil, err
	}
	limit, least, limited := time.Time{}, time.Duration(0), false
	for _, p := range parts {
		wait, bounded := p.o.longestWait()
		if until := time.Now().Add(wait); bounded && (!limited || until.Before(limit)) {
			limit, least, limited = until, min(wait, 1), true // past its limit a wait still is one
		}
	}
	if !limited && !deliberate(ctx) {
		defer watchEndless(func() bool { return false }).Stop()
	}
	all, complete := &Leases{}, false
	defer func() {
		if !complete { // also when a hook panics
			all.discard(ctx)
		}
	}()
	inside := ctx
	for _, p := range parts {
		opts := slices.Clip(p.opts)
		if limited {
			opts = append(opts, WithWait(max(least, time.Until(limit))))
		}
		lease, err := p.locker.acquire(inside, p.key, attempt{group: ctx}, opts)
		if err != nil {
			return nil, err
		}
		all.leases = append(all.leases, lease)
		inside = lease.Context() //nolint:fatcontext // each lease's context carries those before it
	}
	if err := all.equalize(inside, parts); err != nil {
		return nil, err
	}
	complete = true
	for _, lease := range all.leases {
		lease.keep()
	}
	return all, nil
}

// part is what one lease of a group is for.
type part struct {
	Request

	o *options
}

// inOrder checks requests, and returns what to acquire in the order of the keys.
func inOrder(requests []Request) (parts []part, err error) {
	for _, r := range slices.SortedStableFunc(slices.Values(requests), func(a, b Request) int { return cmp.Compare(a.key, b.key) }) {
		if parts, err = r.addTo(parts); err != nil {
			return nil, &Error{Op: "acquire all", Key: r.key, Err: err}
		}
	}
	return parts, nil
}

// addTo returns parts and the one that r is. More permits of a key are asked for with those
// before: two groups that took them one after the other would wait for each other.
func (r Request) addTo(parts []part) ([]part, error) {
	if r.locker == nil {
		return nil, fmt.Errorf("%w: request without a locker", ErrInvalid)
	}
	o, err := r.locker.defaults.with(r.opts)
	if err != nil {
		return nil, err
	}
	last := len(parts) - 1
	if last < 0 || parts[last].key != r.key {
		return append(parts, part{r, o}), nil
	}
	switch before := parts[last]; {
	case before.locker != r.locker:
		return nil, fmt.Errorf("%w: the key is requested of two lockers: their order would not be the same for every caller; use two names", ErrInvalid)
	case before.o.mode == Semaphore && o.mode == Semaphore:
		parts[last], err = r.with(before, o)
		return parts, err
	default:
		return append(parts, part{r, o}), nil
	}
}

// with asks for the permits of both, within the shorter wait.
func (r Request) with(before part, o *options) (part, error) {
	n := before.o.permits + o.permits
	if n > o.size {
		return part{}, ErrOwnHold
	}
	r.opts = append(slices.Concat(before.opts, r.opts), WithPermits(n, o.size))
	first, bounded := before.o.longestWait()
	if second, also := o.longestWait(); bounded && (!also || first < second) {
		r.opts = append(r.opts, WithWait(first))
	}
	o, err := r.locker.defaults.with(r.opts)
	return part{r, o}, err
}

// equalize gives fixed leases that were acquired early what they lost while
// the others were waited for.
func (l *Leases) equalize(ctx context.Context, parts []part) error {
	for i, lease := range l.leases[:len(l.leases)-1] {
		if fixed := parts[i].o.lease; fixed > 0 {
			if err := lease.lengthen(ctx, fixed); err != nil {
				return &Error{Op: "extend", Key: lease.Key(), Err: err}
			}
		}
	}
	return nil
}

// Context ends when any of the leases ends, with that one's cause: a lost
// part ends the whole. It carries all of them, for [AssertHeld] and re-entry. That of nil
// Leases has ended with [ErrNotHeld].
func (l *Leases) Context() context.Context {
	if l == nil {
		return notHeld
	}
	return l.leases[len(l.leases)-1].Context()
}

// Each returns the leases, sorted by key.
func (l *Leases) Each() []*Lease {
	if l == nil {
		return nil
	}
	return slices.Clone(l.leases)
}

// discard releases what was acquired, as the caller gets none of it. It waits for no
// more than one answer of a store that gives none.
func (l *Leases) discard(ctx context.Context) {
	silent := false
	for _, lease := range l.leases {
		defer func() { // the last first, also when a hook panics
			if silent {
				lease.releaseLater(ctx)
			} else {
				silent = errors.Is(lease.Release(ctx), ErrUnavailable) // it is repeated in the background
			}
		}()
	}
}

// Release releases all leases, the last acquired first. It continues after an
// error, and returns an error that wraps all of them. See [Lease.Release]. Nil Leases
// return [ErrNotHeld].
func (l *Leases) Release(ctx context.Context) (failed error) {
	if l == nil {
		return &Error{Op: "release", Err: ErrNotHeld}
	}
	for _, lease := range l.leases {
		defer func() { // the last first, also when a hook panics
			err := lease.Release(ctx)
			switch {
			case err == nil:
			case failed == nil:
				failed = err
			default:
				failed = fmt.Errorf("%w; %w", failed, err)
			}
		}()
	}
	return nil
}

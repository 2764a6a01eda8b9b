package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

// extension is an Extend that is under way.
type extension struct {
	done   chan struct{} // closed by the reply
	result machine.Result
	cause  error
}

func (x *extension) reply(r machine.Result, cause error) {
	x.result, x.cause = r, cause
	close(x.done)
}

// extend implements [Lease.Extend].
func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if err := checkDuration("Extend", d, MinLease, ""); err != nil {
		return err
	}
	sh := l.entry.shard
	if margin := sh.defaults.margin; d <= 2*margin {
		return fmt.Errorf("%w: Extend(%v): must be longer than twice WithMargin(%v)", ErrInvalid, d, margin)
	}
	return l.prolong(ctx, d, true)
}

// prolong extends the hold. exactly says that d must not exceed the limit of the hold.
func (l *Lease) prolong(ctx context.Context, d time.Duration, exactly bool) error {
	sh := l.entry.shard
	if sh.begin() != nil {
		return ErrClosed
	}
	defer sh.running.Done()
	if ctx.Err() != nil {
		return ended(ctx)
	}
	for {
		x, before, err := l.startExtension(ctx, d, exactly)
		if err != nil {
			return err
		}
		if before != nil { // one at a time
			x = before
		}
		select {
		case <-x.done:
		case <-ctx.Done():
			return ended(ctx)
		}
		if before == nil {
			return l.extended(x)
		}
	}
}

// startExtension steps the machine, unless an extension is under way.
func (l *Lease) startExtension(ctx context.Context, d time.Duration, exactly bool) (x, before *extension, err error) {
	if err := l.status(); err != nil {
		return nil, nil, err
	}
	sh := l.entry.shard
	p := pump{Locker: sh.Locker, ctx: uncanceled(ctx)}
	defer p.run()
	now := sh.lock()
	defer sh.mu.Unlock()
	switch {
	case l.fate.Load() != nil:
		return nil, nil, *l.fate.Load()
	case l.extension != nil:
		return nil, l.extension, nil
	}
	if limit := l.entry.awake().Limit(l.slot); exactly && limit > 0 && machine.Time(d) > limit-now {
		l.entry.settle()
		return nil, nil, fmt.Errorf("%w: Extend(%v): WithMaxHold leaves %v", ErrInvalid, d, time.Duration(limit-now))
	}
	x = &extension{done: make(chan struct{})}
	l.extension = x
	p.step(l.entry, &machine.Event{Kind: machine.EvExtend, Caller: l.slot, TTL: machine.Time(d)}, now, nil)
	return x, nil, nil
}

// extended is the error of an extension.
func (l *Lease) extended(x *extension) error {
	switch end := l.fate.Load(); {
	case x.result == machine.ResExtended:
		return nil
	case x.result == machine.ResClosed:
		return ErrClosed
	case x.result == machine.ResLost:
		return x.cause
	case end != nil:
		return *end
	case x.cause != nil:
		return undecided(x.cause)
	}
	return undecided(errNoAnswer)
}

// lengthen gives a lease of a group its length.
func (l *Lease) lengthen(ctx context.Context, d time.Duration) error {
	err := l.prolong(ctx, d, false)
	if errors.Is(err, context.DeadlineExceeded) {
		err = wrap(ErrUnavailable, err) // whichever of its calls was not answered
	}
	return err
}

// keep begins the minimum of a lease of a group that is complete.
func (l *Lease) keep() {
	if l.o.minHold == 0 {
		return
	}
	sh := l.entry.shard
	p := pump{Locker: sh.Locker}
	defer p.run()
	now := sh.lock()
	defer sh.mu.Unlock()
	if l.seated {
		p.step(l.entry, &machine.Event{Kind: machine.EvCommit, Caller: l.slot}, now, nil)
	}
}

// releaseLater releases the lease in the background.
func (l *Lease) releaseLater(ctx context.Context) {
	sh := l.entry.shard
	if sh.begin() != nil {
		return // Close releases it
	}
	go func() {
		defer sh.running.Done()
		_ = l.Release(ctx)
	}()
}

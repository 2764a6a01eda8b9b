package worker

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// tap records what the store answers. It stands between the engine and
// whatever keeps the holds, planted bugs included, so it knows as much as the
// engine does, and no more.
type tap struct {
	lock.Store
	*record
}

func isAnswer(err error) bool { return errors.Is(err, lock.ErrBusy) || errors.Is(err, lock.ErrNotHeld) }

// ran says whether a call that failed may have run.
func ran(err error) bool {
	if errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrUnsupported) {
		return false
	}
	known, ok := errors.AsType[*lock.StoreError](err)
	return !ok || known.Outcome == lock.OutcomeUnknown
}

func about(ctx context.Context, kind history.Kind, c lock.Claim) history.Event {
	asked, _ := ctx.Value(attemptKey{}).(attempt) // none of a renewal
	return history.Event{
		Kind: kind, Client: asked.client, ID: asked.id, Key: c.Key, Mode: c.Mode.String(), Owner: c.Owner, Holds: c.Holds, TTL: int64(c.TTL),
		Permits: c.Permits, Size: c.Size,
	}
}

func (t *tap) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	from := t.clock.Now()
	if asked, ok := ctx.Value(attemptKey{}).(attempt); ok {
		t.pending.Store(asked, true)
		defer t.pending.Delete(asked) // after its answer is noted
	}
	fence, err := t.Store.Acquire(ctx, c)
	e := about(ctx, history.Grant, c)
	e.Call, e.Return = from, t.clock.Now()
	switch {
	case err == nil:
		e.Fence = fence
		t.queued(e, c, true)
	case isAnswer(err):
		t.queued(e, c, errors.Is(err, lock.ErrBusy))
		return fence, err
	case ran(err):
		t.queued(e, c, false)
		e.Kind, e.Op, e.Note = history.Doubt, history.Acquire, err.Error()
	default:
		return fence, err
	}
	t.add(e)
	return fence, err
}

// queued notes the places that a call has taken or kept, or may have.
func (t *tap) queued(e history.Event, c lock.Claim, certain bool) {
	if c.Mode != lock.Fair {
		return
	}
	e.Kind, e.Outcome = history.Queued, history.OK
	if !certain {
		e.Outcome = history.Unknown
	}
	for _, owner := range c.Places {
		if owner != c.Owner || e.Fence == 0 {
			e.Owner = owner
			t.add(e)
		}
	}
}

func (t *tap) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	from := t.clock.Now()
	t.Store.Renew(ctx, claims, func(i int, err error) {
		e := about(ctx, history.Renew, claims[i])
		e.Call, e.Return, e.Outcome = from, t.clock.Now(), history.OK
		switch {
		case errors.Is(err, lock.ErrNotHeld):
			e.Outcome = history.NotHeld
		case err != nil && ran(err):
			e.Kind, e.Op, e.Note = history.Doubt, history.Renew, err.Error()
		}
		if err == nil || isAnswer(err) || ran(err) {
			t.add(e)
		}
		report(i, err)
	})
}

package worker

import (
	"context"
	"errors"
	"sync"
	"time"

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
		Kind: kind, Client: asked.client, ID: asked.id, Key: c.Key, Mode: c.Mode.String(), Owner: c.Owner, TTL: int64(c.TTL),
		Permits: c.Permits, Size: c.Size,
	}
}

func (t *tap) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	note := t.acquiring(ctx, c)
	t.Store.Acquire(ctx, c, by, lock.AnswerFunc(func(fence uint64, err error) {
		note(fence, err)
		answer.Answered(fence, err)
	}))
}

// acquiring begins a call. note is to be called with its answer.
func (t *tap) acquiring(ctx context.Context, c lock.Claim) (note func(fence uint64, err error)) {
	from := t.clock.Now()
	asked, known := ctx.Value(attemptKey{}).(attempt)
	if known {
		t.pending.Store(asked, true)
	}
	return func(fence uint64, err error) {
		e := about(ctx, history.Grant, c)
		e.Call, e.Return, e.Fence = from, t.clock.Now(), fence
		t.acquired(e, c, err)
		if known {
			t.pending.Delete(asked)
		}
	}
}

// acquired notes an answer.
func (t *tap) acquired(e history.Event, c lock.Claim, err error) {
	switch {
	case err == nil:
		t.queued(e, c, true)
	case isAnswer(err):
		t.queued(e, c, errors.Is(err, lock.ErrBusy))
		return
	case ran(err):
		t.queued(e, c, false)
		e.Kind, e.Op, e.Note = history.Doubt, history.Acquire, err.Error()
	default:
		return
	}
	t.add(e)
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

func (t *tap) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	note := t.releasing(c)
	t.Store.Release(ctx, c, by, lock.AnswerFunc(func(fence uint64, err error) {
		note(err)
		answer.Answered(fence, err)
	}))
}

func (t *tap) Lower(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	from := t.clock.Now()
	t.Store.Lower(ctx, c, by, lock.AnswerFunc(func(fence uint64, err error) {
		e := about(ctx, history.Lowered, c)
		e.Call, e.Return = from, t.clock.Now()
		t.answered(e, err)
		answer.Answered(fence, err)
	}))
}

// releasing begins a release. note is to be called with its answer. A release by a
// caller without one of the store has handed the hold on.
func (t *tap) releasing(c lock.Claim) (note func(error)) {
	from, keep := t.clock.Now(), int64(0)
	if left := time.Until(c.Keep); left > 0 && !c.Keep.IsZero() {
		keep = from + int64(left)
	}
	return func(err error) {
		e := history.Event{
			Kind: history.Freed, Key: c.Key, Mode: c.Mode.String(), Owner: c.Owner, Keep: keep, Call: from, Return: t.clock.Now(), Outcome: history.OK,
		}
		switch {
		case err != nil && !isAnswer(err) && !ran(err):
			return
		case isAnswer(err):
			e.Outcome = history.NotHeld
		case err != nil:
			e.Outcome = history.Unknown
		}
		t.add(e)
	}
}

// Renew also notes which renewals have no answer when the engine waits no longer: the store may
// go on for longer than the process lives.
func (t *tap) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	from := t.clock.Now()
	note := func(i int, err error) {
		e := about(ctx, history.Renew, claims[i])
		e.Call, e.Return = from, t.clock.Now()
		t.answered(e, err)
	}
	var mu sync.Mutex
	pending := make(map[int]bool)
	for i := range claims {
		pending[i] = true
	}
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		for i := range pending {
			note(i, context.Cause(ctx))
		}
	})
	defer stop()
	t.Store.Renew(ctx, claims, func(i int, err error) {
		mu.Lock()
		delete(pending, i)
		note(i, err)
		mu.Unlock()
		report(i, err)
	})
}

// answered notes a call that changes a hold which is there, or may have.
func (t *tap) answered(e history.Event, err error) {
	e.Outcome = history.OK
	switch {
	case err == nil:
	case errors.Is(err, lock.ErrNotHeld):
		e.Outcome = history.NotHeld
	case ran(err):
		e.Kind, e.Op, e.Outcome, e.Note = history.Doubt, e.Kind, "", err.Error()
	default:
		return
	}
	t.add(e)
}

package lock

import "context"

// join returns hooks that call those of h and then those of other, also if those of h
// panic. What only one of them observes costs no more than before.
func (h *Hooks) join(other *Hooks) *Hooks {
	return &Hooks{
		Waiting:  joinWaiting(h.Waiting, other.Waiting),
		Acquired: joinAcquired(h.Acquired, other.Acquired),
		Released: joinEvents(h.Released, other.Released),
		Renewed:  joinEvents(h.Renewed, other.Renewed),
		Backlog:  joinEvents(h.Backlog, other.Backlog),
		Lost:     joinEvents(h.Lost, other.Lost),
	}
}

func joinEvents[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e E) {
		defer second(e)
		first(e)
	}
}

func joinAcquired(first, second func(context.Context, AcquireEvent)) func(context.Context, AcquireEvent) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e AcquireEvent) {
		defer second(ctx, e)
		first(ctx, e)
	}
}

func joinWaiting(first, second func(context.Context, Event) func()) func(context.Context, Event) func() {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e Event) func() {
		var firstDone, secondDone func()
		done := func() {
			if secondDone != nil {
				defer secondDone()
			}
			if firstDone != nil {
				firstDone()
			}
		}
		panicked := true
		defer func() {
			if panicked { // then nobody else ends the wait that one of them saw begin
				done()
			}
		}()
		func() {
			defer func() { secondDone = second(ctx, e) }()
			firstDone = first(ctx, e)
		}()
		panicked = false
		return done
	}
}

package lock

import (
	"context"
	"time"
)

// BlockingStore is a [Store] whose calls return when they are answered, which is
// simpler to write and to call. The contract of each method is that of Store.
type BlockingStore interface {
	Acquire(ctx context.Context, c Claim) (fence uint64, err error)
	Release(ctx context.Context, c Claim) error
	Lower(ctx context.Context, c Claim) error
	Renew(ctx context.Context, claims []Claim, report func(i int, err error))
	Watch(ctx context.Context, c Claim, wake func()) (stop func(), err error)
	Inspect(ctx context.Context, key string) (State, error)
	ForceRelease(ctx context.Context, key string) (freed bool, err error)
	Traits() Traits
}

// undoWorkers is how many clean-ups an [Async] store runs at a time: they must not cost
// more than the calls that people wait for.
const undoWorkers = 8

// Async makes a [Store] of one whose calls block: each runs on a goroutine, with a context
// that ends with ctx and at the time until which the call is wanted. A panic of a call is a
// failed call, with a [*PanicError]. Other methods of s than those of [BlockingStore] don't
// show.
func Async(s BlockingStore) Store {
	return &async{BlockingStore: s, undoing: make(chan struct{}, undoWorkers)}
}

type async struct {
	BlockingStore

	undoing chan struct{} // has an element for each clean-up that runs
}

func (s *async) Acquire(ctx context.Context, c Claim, by time.Time, answer Answer) {
	s.start(ctx, by, answer, func(ctx context.Context) (uint64, error) { return s.BlockingStore.Acquire(ctx, c) })
}

func (s *async) Release(ctx context.Context, c Claim, by time.Time, answer Answer) {
	s.start(ctx, by, answer, func(ctx context.Context) (uint64, error) {
		if c.Undo {
			select {
			case s.undoing <- struct{}{}:
				defer func() { <-s.undoing }()
			case <-ctx.Done():
				return 0, &StoreError{Outcome: OutcomeNotExecuted, Err: context.Cause(ctx)}
			}
		}
		return 0, s.BlockingStore.Release(ctx, c)
	})
}

func (s *async) Lower(ctx context.Context, c Claim, by time.Time, answer Answer) {
	s.start(ctx, by, answer, func(ctx context.Context) (uint64, error) { return 0, s.BlockingStore.Lower(ctx, c) })
}

// Traits are those of the store, whose calls wait for others now.
func (s *async) Traits() Traits {
	t := s.BlockingStore.Traits()
	t.Immediate = false
	return t
}

// start runs a call, whose context ends with ctx and at that time. It runs none if that
// has come.
func (s *async) start(ctx context.Context, by time.Time, answer Answer, call func(context.Context) (uint64, error)) {
	go func() {
		ctx, cancel := context.WithDeadlineCause(ctx, by, errNoAnswer)
		defer cancel()
		if ctx.Err() != nil {
			answer.Answered(0, &StoreError{Outcome: OutcomeNotExecuted, Err: context.Cause(ctx)})
			return
		}
		answer.Answered(guarded(ctx, call))
	}()
}

// Blocking makes the calls of a [Store] wait for their answers. A call whose ctx ends
// first has failed with [OutcomeUnknown], and goes on.
func Blocking(s Store) BlockingStore {
	if known, ok := s.(*async); ok {
		return known.BlockingStore
	}
	return blocking{s}
}

type blocking struct{ Store }

func (s blocking) Acquire(ctx context.Context, c Claim) (uint64, error) {
	return answered(ctx, c, s.Store.Acquire)
}

func (s blocking) Release(ctx context.Context, c Claim) error {
	_, err := answered(ctx, c, s.Store.Release)
	return err
}

func (s blocking) Lower(ctx context.Context, c Claim) error {
	_, err := answered(ctx, c, s.Store.Lower)
	return err
}

// storeCall is a method of [Store] that answers later.
type storeCall func(ctx context.Context, c Claim, by time.Time, answer Answer)

// answered begins a call and waits for its answer.
func answered(ctx context.Context, c Claim, start storeCall) (uint64, error) {
	by, ok := ctx.Deadline()
	if !ok {
		by = time.Now().Add(MaxDuration)
	}
	type result struct {
		fence uint64
		err   error
	}
	answers := make(chan result, 1)
	start(ctx, c, by, AnswerFunc(func(fence uint64, err error) { answers <- result{fence, err} }))
	select {
	case r := <-answers:
		return r.fence, r.err
	default:
	}
	select {
	case r := <-answers:
		return r.fence, r.err
	case <-ctx.Done():
		return 0, &StoreError{Err: context.Cause(ctx)}
	}
}

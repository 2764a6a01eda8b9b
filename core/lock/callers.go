package lock

import "context"

// Acquire waits until it has key, ctx ends, or [WithWait] has passed. Callers of
// one locker get a contended key in the order of their calls. For permits, several may call the
// store at the same time, and then the store decides their order. Between processes there is no
// order unless the mode promises one.
//
// If ctx was derived from a lease of key of this locker, Acquire re-enters
// it: the new lease shares its hold and must be released as well. It makes no call, unless
// the new lease asks for more time than the hold has.
//
// Errors: [ErrBusy] (with [context.DeadlineExceeded] when a limit of time was
// reached, with [ErrTooManyWaiters] when a limit of waiters was), ctx's error,
// [ErrUnavailable], [ErrUnsupported], [ErrInvalid], [ErrClosed]; [ErrLost] when a hold
// was taken away before it had the length that the lease asks for. After an error nothing
// more is held than before: what calls may have left in the store is removed in the
// background.
//
// A call that still waits after ten seconds on a context that can't end, such as
// *gin.Context, and without a limit, logs a line to [log/slog]. [context.Background] and
// [context.TODO] say that no end is meant.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	if !deliberate(ctx) {
		defer watchEndless(func() bool {
			o, _ := l.defaults.with(opts)
			_, bounded := o.longestWait()
			return bounded
		}).Stop()
	}
	return l.acquire(ctx, key, attempt{}, opts)
}

// TryAcquire is [Locker.Acquire] that never waits for another owner: it returns
// [ErrBusy] at once. It makes no call to the store if this locker itself holds the
// key, or if another caller of it waits for the key already. Tries of one key in an
// exclusive mode that come while the store is called for another share the answer to
// the next call, which is sent after they came. [WithWait] is ignored.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error) {
	return l.acquire(ctx, key, attempt{once: true}, opts)
}

// Check returns the [ErrInvalid] that acquisitions of key with these options would
// get, and nil if they may succeed. It makes no call. It is for code that keeps
// options for later: a mistake shows when the program starts.
func (l *Locker) Check(key string, opts ...Option) error {
	_, err := l.defaults.with(opts)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return &Error{Op: "check", Key: key, Err: err}
	}
	return nil
}

// CheckOptions returns why [New] would panic with these options: an error that wraps
// [ErrInvalid]. It is for options that come from outside of the program.
func CheckOptions(opts ...Option) error { return defaultOptions().forNew(opts) }

// Inspect reports who holds key. A free key is a State that is not Held. A key that the
// store uses for something else is [ErrInvalid]. With [WithIdentity] it names the holders
// that are registered, with one more call.
func (l *Locker) Inspect(ctx context.Context, key string) (State, error) {
	state, err := query(ctx, l, "inspect", key, l.store.Inspect)
	if err == nil {
		l.identify(ctx, &state)
	}
	return state, err
}

// query makes a call to the store that needs no clean-up when it stays
// unanswered.
func query[T any](ctx context.Context, l *Locker, op, key string, ask func(context.Context, string) (T, error)) (T, error) {
	var none T
	err := checkKey(key)
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		return none, &Error{Op: op, Key: key, Err: err}
	}
	defer l.running.Done()
	answer, err := bounded(ctx, l, l.defaults.callTimeout, func(ctx context.Context) (T, error) { return ask(ctx, key) }, nil)
	if err != nil {
		return none, &Error{Op: op, Key: key, Err: failure(ctx, err)}
	}
	return answer, nil
}

package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestWrongOptionsAreRefusedByName(t *testing.T) {
	tests := []struct {
		opt  lock.Option
		name string
	}{
		{lock.WithWait(-1), "WithWait(-1ns)"},
		{lock.WithLease(0), "WithLease(0s)"},
		{lock.WithLease(-time.Second), "WithLease(-1s)"},
		{lock.WithWatchdog(time.Millisecond), "WithWatchdog(1ms)"},
		{lock.WithMode(lock.Mode(99)), "WithMode(99)"},
		{lock.WithPoll(0), "WithPoll(0s)"},
		{lock.WithCallTimeout(0), "WithCallTimeout(0s)"},
		{nil, "an option is nil"},
		{lock.WithMaxWaiters(0), "WithMaxWaiters(0)"},
		{lock.WithMaxTotalWaiters(0), "WithMaxTotalWaiters(0)"},
		{lock.WithPermits(0, 1), "WithPermits(0, 1)"},
		{lock.WithPermits(2, 1), "WithPermits(2, 1)"},
	}
	l := newLocker(t, memstore.New())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, call := range []func() error{
				func() error { _, err := l.Acquire(t.Context(), "k", tt.opt); return err },
				func() error { _, err := l.TryAcquire(t.Context(), "k", tt.opt); return err },
				func() error { return l.Check("k", tt.opt) },
			} {
				err := call()
				wantErr(t, err, lock.ErrInvalid)
				if !strings.Contains(err.Error(), tt.name) {
					t.Errorf("%q does not name %s", err, tt.name)
				}
			}
			defer func() {
				if message, _ := recover().(string); !strings.Contains(message, tt.name) {
					t.Errorf("New panicked with %q, want it to name %s", message, tt.name)
				}
			}()
			lock.New(memstore.New(), tt.opt)
		})
	}
}

func TestACheckSaysWhatAnAcquisitionWould(t *testing.T) {
	l := newLocker(t, memstore.New(), lock.WithMinHold(time.Minute))
	for name, c := range map[string]struct {
		key  string
		opts []lock.Option
	}{
		"no key":                       {key: ""},
		"only for New":                 {"k", []lock.Option{lock.WithHooks(lock.Hooks{})}},
		"against a default of the New": {"k", []lock.Option{lock.WithLease(time.Second)}},
	} {
		_, want := l.TryAcquire(t.Context(), c.key, c.opts...)
		if got := l.Check(c.key, c.opts...); !errors.Is(got, lock.ErrInvalid) || errors.Unwrap(got).Error() != errors.Unwrap(want).Error() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if err := l.Check("k", lock.WithLease(time.Hour)); err != nil {
		t.Error(err)
	}
}

// What a call would ignore in silence is refused.
func TestOptionsOfALockerAreRefusedInACall(t *testing.T) {
	l := newLocker(t, memstore.New(), lock.WithMargin(time.Second), lock.WithHandoff(1, time.Second), lock.WithHooks(lock.Hooks{}))
	for name, opt := range map[string]lock.Option{
		"WithMargin":  lock.WithMargin(lock.DefaultMargin),
		"WithHandoff": lock.WithHandoff(0, 0),
		"WithHooks":   lock.WithHooks(lock.Hooks{}),
	} {
		_, acquired := l.Acquire(t.Context(), name+" acquire", opt)
		_, tried := l.TryAcquire(t.Context(), name+" try", opt)
		done := l.Do(t.Context(), name+" do", func(context.Context) error { return nil }, opt)
		_, all := lock.AcquireAll(t.Context(), l.Request(name+" all", opt))
		for _, err := range []error{acquired, tried, done, all} {
			if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), name+": is only for New") {
				t.Errorf("%s: got %v, want ErrInvalid that names it", name, err)
			}
		}
	}
}

// The size may come after the mode that needs it.
func TestASemaphoreNeedsItsSizeInAnyOrder(t *testing.T) {
	l := newLocker(t, memstore.New())
	_, err := l.Acquire(t.Context(), "k", lock.WithMode(lock.Semaphore))
	if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "use WithPermits") {
		t.Errorf("without permits: got %v, want ErrInvalid that says what to use", err)
	}
	lease := acquire(t, l, t.Context(), "k", lock.WithMode(lock.Semaphore), lock.WithPermits(1, 2))
	if lease.Mode() != lock.Semaphore {
		t.Errorf("it is held in mode %v", lease.Mode())
	}
	release(t, lease)
}

// A margin that New accepts leaves trust in what an acquire writes, which is 30 s
// at most, whatever the watchdog.
func TestAnyMarginThatIsAcceptedLeavesTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for margin := lock.DefaultMargin; margin < time.Hour; margin *= 2 {
			l, refused := made(lock.WithWatchdog(4*margin), lock.WithMargin(margin))
			if refused {
				if margin < 15*time.Second && 4*margin >= lock.MinLease {
					t.Errorf("a margin of %v is refused", margin)
				}
				continue
			}
			release(t, acquire(t, l, t.Context(), "k"))
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func made(opts ...lock.Option) (l *lock.Locker, refused bool) {
	defer func() { refused = recover() != nil }()
	return lock.New(memstore.New(), opts...), false
}

func TestWrongKeysAreRefused(t *testing.T) {
	l := newLocker(t, memstore.New())
	for _, key := range []string{"", strings.Repeat("k", lock.MaxKeyBytes+1)} {
		_, err := l.Acquire(t.Context(), key)
		wantErr(t, err, lock.ErrInvalid)
		_, err = l.Inspect(t.Context(), key)
		wantErr(t, err, lock.ErrInvalid)
	}
}

func TestErrorsCarryOperationKeyAndDecision(t *testing.T) {
	l := newLocker(t, memstore.New())
	lease := acquire(t, l, t.Context(), "order:42")
	_, err := l.TryAcquire(t.Context(), "order:42")
	var failed *lock.Error
	if !errors.As(err, &failed) || failed.Op != "acquire" || failed.Key != "order:42" {
		t.Fatalf("got %#v", err)
	}
	if got, want := err.Error(), `lock: acquire "order:42": lock is held by another owner`; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	release(t, lease)
}

func TestModesHaveNames(t *testing.T) {
	for _, m := range []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
		if got, err := lock.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	if m, err := lock.ParseMode(""); err != nil || m != lock.Exclusive {
		t.Errorf(`ParseMode("") = %v, %v`, m, err)
	}
	_, err := lock.ParseMode("shared")
	wantErr(t, err, lock.ErrInvalid)
}

func TestDefaultsAreOverriddenPerCall(t *testing.T) {
	store := memstore.New()
	l := newLocker(t, store, lock.WithLease(time.Minute))
	a := acquire(t, l, t.Context(), "a")
	b := acquire(t, l, t.Context(), "b", lock.WithWatchdog(time.Hour))
	for key, want := range map[string]time.Duration{"a": time.Minute, "b": time.Hour} {
		state, err := l.Inspect(t.Context(), key)
		if err != nil || state.TTL > want || state.TTL < want-30*time.Second {
			t.Errorf("%s: TTL %v, %v; want about %v", key, state.TTL, err, want)
		}
	}
	release(t, a)
	release(t, b)
}

func TestWrongOptionsOfALockerAreRefusedByName(t *testing.T) {
	for name, opt := range map[string]lock.Option{
		"WithMargin(1ms)":     lock.WithMargin(time.Millisecond),
		"WithHandoff(-1, 1s)": lock.WithHandoff(-1, time.Second),
		"WithHandoff(64, 1s)": lock.WithHandoff(lock.FenceStep, time.Second),
		"WithHandoff(-1ns)":   lock.WithHandoff(1, -1),

		"WithCallTimeout(30s): must be below the watchdog": lock.WithCallTimeout(lock.DefaultWatchdog),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if message, _ := recover().(string); !strings.Contains(message, name) {
					t.Errorf("New panicked with %q, want it to name %s", message, name)
				}
			}()
			lock.New(memstore.New(), opt)
		})
	}
}

// One that is given to New alone must leave room for the calls that renew it.
func TestAShortWatchdogShortensTheCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watchdog = 300 * time.Millisecond
		store := newFaulty()
		l := newLocker(t, store, lock.WithWatchdog(watchdog))
		store.set(only("acquire", func(lock.Claim) error { time.Sleep(time.Second); return nil }), nil)
		began := time.Now()
		_, err := l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		if took := time.Since(began); took > watchdog/2 {
			t.Errorf("a call was waited for for %v", took)
		}
		time.Sleep(2 * time.Second)
	})
}

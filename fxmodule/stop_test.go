package fxmodule_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx/fxtest"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/fxmodule"
)

// running is a locker that was made and started as in an application.
type running struct {
	fxmodule.Result
	store *memstore.Store
	life  *fxtest.Lifecycle
	log   bytes.Buffer
}

func start(t *testing.T, config fxmodule.Config) *running {
	t.Helper()
	r := &running{store: memstore.New(), life: fxtest.NewLifecycle(t)}
	made, err := fxmodule.New(fxmodule.Params{
		Lifecycle: r.life, Store: r.store, Config: config, Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Result = made
	r.life.RequireStart()
	return r
}

func (r *running) acquire(t *testing.T, key string) *lock.Lease {
	t.Helper()
	lease, err := r.Locker.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestStopWaitsForHoldersAndRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, fxmodule.Config{})
		lease := r.acquire(t, "k")
		if err := r.Health.Check(t.Context()); err != nil {
			t.Errorf("before the stop: %v", err)
		}
		time.AfterFunc(3*time.Second, func() {
			if err := r.Health.Check(t.Context()); !errors.Is(err, lock.ErrClosed) {
				t.Errorf("health during the stop: %v, want ErrClosed", err)
			}
			if _, err := r.Locker.TryAcquire(t.Context(), "other"); !errors.Is(err, lock.ErrClosed) {
				t.Errorf("a new lock during the stop: %v, want ErrClosed", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("the holder lost its lock: %v", err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		began := time.Now()
		if err := r.life.Stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("stopped after %v, want the holder's 3s", took)
		}
		if r.log.Len() != 0 {
			t.Errorf("logged %s", r.log.String())
		}
	})
}

// An application may drain the locker before fx stops it.
func TestHealthTellsOfALockerThatDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, fxmodule.Config{})
		if err := r.Locker.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Health.Check(t.Context()); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("the locker drains: %v, want ErrClosed", err)
		}
		r.life.RequireStop()
	})
}

func TestStopReleasesWhatIsHeldWhenItsTimeIsNearlyOver(t *testing.T) {
	for name, test := range map[string]struct{ timeout, reserve, want time.Duration }{
		"by default":             {15 * time.Second, 0, 13 * time.Second},
		"as configured":          {15 * time.Second, 5 * time.Second, 10 * time.Second},
		"with little time":       {time.Second, 0, 500 * time.Millisecond},
		"with more reserve than": {10 * time.Second, time.Hour, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, fxmodule.Config{ReleaseTimeout: test.reserve})
				lease := r.acquire(t, "k")
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				began := time.Now()
				if err := r.life.Stop(ctx); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("stopped after %v, want %v", took, test.want)
				}
				if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrClosed) {
					t.Errorf("the lease ended with %v, want ErrClosed", cause)
				}
				if n := r.store.Len(); n != 0 {
					t.Errorf("%d keys are still held", n)
				}
				if text := r.log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "leases still held: 1") {
					t.Errorf("logged %s", text)
				}
			})
		})
	}
}

func TestStopWithoutADeadlineWaitsForAllHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, fxmodule.Config{})
		lease := r.acquire(t, "k")
		time.AfterFunc(time.Hour, func() { _ = lease.Release(t.Context()) })
		if err := r.life.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrReleased) {
			t.Errorf("the lease ended with %v, want ErrReleased", cause)
		}
	})
}

// mute is a store that answers Inspect with an error, or not at all.
type mute struct {
	lock.Store
	err error
}

func (s mute) Inspect(ctx context.Context, _ string) (lock.State, error) {
	if s.err != nil {
		return lock.State{}, s.err
	}
	<-ctx.Done()
	return lock.State{}, ctx.Err()
}

func TestHealthTellsOfAStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		for name, test := range map[string]struct {
			store lock.Store
			want  error
			took  time.Duration
		}{
			"down":   {mute{memstore.New(), down}, lock.ErrUnavailable, 0},
			"silent": {mute{Store: memstore.New()}, context.DeadlineExceeded, time.Second},
			"there":  {memstore.New(), nil, 0},
		} {
			life := fxtest.NewLifecycle(t)
			made, err := fxmodule.New(fxmodule.Params{Lifecycle: life, Store: test.store, Config: fxmodule.Config{CheckTimeout: time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			life.RequireStart()
			began := time.Now()
			if err := made.Health.Check(t.Context()); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("%s: got %v, want %v", name, err, test.want)
			}
			if took := time.Since(began); took != test.took {
				t.Errorf("%s: took %v, want %v", name, took, test.took)
			}
			life.RequireStop()
		}
	})
}

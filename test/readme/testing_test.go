package readme_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
)

// shop is what the page about tests tests.
type shop struct {
	guard *guard.Guard
	work  func(ctx context.Context) error
}

var placeRule = rule.Rule{Operation: "shop.place", Key: "lock:order:<userId>", Wait: time.Second}

func (s shop) place(ctx context.Context, userID string) (err error) {
	ctx, leave, err := s.guard.Enter(ctx, guard.Call{
		Operation: "shop.place",
		Vars:      func(key.Var) (string, error) { return userID, nil },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	return s.work(ctx)
}

func TestAnOrderHasItsLock(t *testing.T) {
	g := guardtest.Guard(t, placeRule)
	s := shop{g, func(ctx context.Context) error {
		guardtest.AssertHeld(t, ctx, "lock:order:42")
		return nil
	}}
	if err := s.place(t.Context(), "42"); err != nil {
		t.Fatal(err)
	}
	guardtest.AssertFree(t, g, "lock:order:42")
}

func TestAnOrderWaitsASecondForTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guardtest.Guard(t, placeRule)
		s := shop{g, func(context.Context) error { return nil }}

		other := guardtest.Hold(t, g, "lock:order:42")
		began := time.Now()
		if err := s.place(t.Context(), "42"); guard.KindOf(err) != guard.Contended {
			t.Errorf("got %v, want contended", err)
		}
		if waited := time.Since(began); waited != time.Second { // on the clock of the bubble
			t.Errorf("waited %v", waited)
		}

		time.AfterFunc(time.Second/2, func() { _ = other.Release(context.Background()) })
		if err := s.place(t.Context(), "42"); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkStopsWhenItsLockIsLost(t *testing.T) {
	g := guardtest.Guard(t, placeRule)
	s := shop{g, func(ctx context.Context) error {
		guardtest.Lose(t, g, "lock:order:42")
		<-ctx.Done() // the work must notice
		return context.Cause(ctx)
	}}
	if err := s.place(t.Context(), "42"); !errors.Is(err, lock.ErrLost) || guard.KindOf(err) != guard.Lost {
		t.Errorf("got %v, want lost", err)
	}
}

func TestNothingIsPlacedWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, redis := guardtest.GuardWithOutage(t, placeRule)
		placed := 0
		s := shop{g, func(context.Context) error { placed++; return nil }}

		redis.Begin()
		if err := s.place(t.Context(), "42"); guard.KindOf(err) != guard.Unavailable || placed != 0 {
			t.Errorf("got %v, placed %d", err, placed)
		}
		redis.End()
		if err := s.place(t.Context(), "42"); err != nil || placed != 1 {
			t.Errorf("after the outage: got %v, placed %d", err, placed)
		}
	})
}

// A lease that couldn't be renewed during an outage is lost, and one that could
// be renewed after it isn't.
func TestAnOutageThatLastsLosesTheLock(t *testing.T) {
	for name, tt := range map[string]struct {
		lasts time.Duration
		want  error
	}{"short": {15 * time.Second, nil}, "long": {time.Minute, lock.ErrLost}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, redis := guardtest.GuardWithOutage(t, placeRule)
				s := shop{g, func(ctx context.Context) error {
					redis.Begin()
					time.AfterFunc(tt.lasts, redis.End)
					select {
					case <-ctx.Done():
					case <-time.After(2 * time.Minute):
					}
					return context.Cause(ctx)
				}}
				if err := s.place(t.Context(), "42"); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestAHandlerIsTestedThroughItsRouter(t *testing.T) {
	g := guardtest.Guard(t, rule.Rule{Operation: "POST /vouchers/:id/orders", Key: "lock:order:<userId>"})
	router := newRouter(g)

	other := guardtest.Hold(t, g, "lock:order:42")
	answer := guardtest.Send(router, http.MethodPost, "/vouchers/7/orders", "")
	if answer.Code != http.StatusConflict || guardtest.Code(t, answer) != "LOCK_CONTENDED" {
		t.Errorf("while another request has the lock: %d %s", answer.Code, answer.Body)
	}
	if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer := guardtest.Send(router, http.MethodPost, "/vouchers/7/orders", ""); answer.Code != http.StatusCreated {
		t.Errorf("then: %d %s", answer.Code, answer.Body)
	}
}

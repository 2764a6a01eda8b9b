package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// failing is a node whose calls fail with an error.
type failing struct {
	lock.BlockingStore
	err error
}

func (f failing) Acquire(context.Context, lock.Claim) (uint64, error) { return 0, f.err }
func (f failing) Release(context.Context, lock.Claim) error           { return f.err }
func (f failing) Inspect(context.Context, string) (lock.State, error) { return lock.State{}, f.err }
func (f failing) ForceRelease(context.Context, string) (bool, error)  { return false, f.err }
func (f failing) Watch(context.Context, lock.Claim, func()) (func(), error) {
	return nil, f.err
}

func (f failing) Renew(_ context.Context, claims []lock.Claim, report func(int, error)) {
	for i := range claims {
		report(i, f.err)
	}
}

// away is the failure of a node that cannot be reached.
func away(class string, err error) error {
	return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: true, Class: class, Err: err}
}

// A node that refuses for good, or that is left alone, says something about itself. A
// caller who took it for the quorum's word would not try again.
func TestWhatAMinoritySaysIsNotTheQuorumsWord(t *testing.T) {
	for name, c := range map[string]struct{ says, is error }{
		"refuses":             {errWrong, lock.ErrInvalid},
		"refuses in a call":   {away("", lock.ErrUnsupported), lock.ErrUnsupported},
		"has an open circuit": {away("", lock.ErrCircuitOpen), lock.ErrCircuitOpen},
	} {
		for nodes, said := range map[int]bool{1: false, 2: true} {
			t.Run(fmt.Sprintf("%d of 3 %s", nodes, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					stores := []lock.BlockingStore{failing{err: c.says}, failing{err: away("connection lost", errLink)}, memory()}
					if nodes == 2 {
						stores[1] = stores[0]
						stores[0] = failing{memory(), c.says}
					}
					l := lock.New(quorumOf(t, stores...).Store)
					_, err := l.Acquire(t.Context(), "k")
					if errors.Is(err, c.is) != said {
						t.Errorf("got %v, which is %v: %v, want %v", err, c.is, !said, said)
					}
					if !said && !errors.Is(err, lock.ErrUnavailable) {
						t.Errorf("got %v, want ErrUnavailable", err)
					}
					if class := lock.ClassOf(err); !said && class != "connection lost" {
						t.Errorf("the class of %v is %q", err, class)
					}
					must(t, l.Close(t.Context()))
				})
			})
		}
	}
}

// A majority of the nodes lets this client in no longer. A caller who has waited for another
// owner would otherwise ride that out as an outage, for 30 s.
func TestAMajorityThatLetsNobodyInIsCalledOnce(t *testing.T) {
	noperm := &lock.StoreError{Outcome: lock.OutcomeRefused, Class: "NOPERM", Err: errors.New("NOPERM at 10.1.2.3:6379")}
	for refusing, want := range map[int]lock.Outcome{1: lock.OutcomeNotExecuted, 2: lock.OutcomeRefused, 3: lock.OutcomeRefused} {
		t.Run(fmt.Sprint(refusing, " of 3"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, stores := stubs(3)
				q := quorumOf(t, stores...)
				must(t, acquireOf(q, claimBy("other")))
				synctest.Wait() // the third node has answered, too
				l := lock.New(q.Store, lock.WithPoll(time.Second))
				answer := make(chan error, 1)
				go func() {
					_, err := l.Acquire(t.Context(), "k")
					answer <- err
				}()
				time.Sleep(time.Second / 2)
				synctest.Wait() // it knows that the key is busy
				began := time.Now()
				for i, n := range nodes {
					f := error(away("connection lost", errLink))
					if i < refusing {
						f = noperm
					}
					n.acquire = func(lock.Claim) (uint64, error) { return 0, f }
					n.renew, n.release = func(lock.Claim) error { return f }, func(lock.Claim) error { return f }
				}
				for call, err := range map[string]error{
					"acquire": acquireOf(q, claimBy("a")), "renew": renewOf(t.Context(), q, claimBy("other")),
					"release": q.Release(t.Context(), claimBy("other")),
				} {
					var failed *lock.StoreError
					if !errors.As(err, &failed) || failed.Outcome != want {
						t.Errorf("%s: got %#v, want the outcome %v", call, err, want)
					}
					if class := lock.ClassOf(err); refusing == 3 && class != "NOPERM" || strings.Contains(err.Error(), "10.1.2.3") {
						t.Errorf("%s: %v of class %q", call, err, class)
					}
				}
				if err := <-answer; !errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("the waiter: got %v, want ErrUnavailable", err)
				}
				if took := time.Since(began); (took < 5*time.Second) != (refusing > 1) {
					t.Errorf("the waiter came back after %v", took)
				}
				must(t, l.Close(t.Context()))
			})
		})
	}
}

// deaf is a node that answers no call before its context ends.
type deaf struct{ failing }

func (deaf) Acquire(ctx context.Context, _ lock.Claim) (uint64, error) {
	<-ctx.Done()
	return 0, &lock.StoreError{Outcome: lock.OutcomeUnknown, Unreachable: true, Class: "timeout", Err: ctx.Err()}
}

// mute is a node that takes longer to answer than anybody waits.
type mute struct{ failing }

func (mute) Acquire(context.Context, lock.Claim) (uint64, error) {
	time.Sleep(time.Second)
	return 0, errLink
}

// The class is what logs and metrics have of a failure. A circuit breaker counts the ones of
// a store that can't be reached.
func TestAFailureHasAClass(t *testing.T) {
	for name, c := range map[string]struct {
		node        lock.BlockingStore
		class       string
		unreachable bool
	}{
		"one that says which":         {failing{err: away("connection refused", errLink)}, "connection refused", true},
		"one that says nothing":       {failing{err: away("", errLink)}, "unknown", true},
		"one that is there":           {failing{err: &lock.StoreError{Class: "OOM", Err: errLink}}, "OOM", false},
		"one whose context ends":      {deaf{}, "timeout", true},
		"one that nobody waits for":   {mute{}, "timeout", true},
		"one whose client has a bug":  {panicking{}, "panic", false},
		"one with another's deadline": {failing{err: context.DeadlineExceeded}, "timeout", false},
		"one with another's end":      {failing{err: context.Canceled}, "canceled", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := quorumOf(t, c.node, memory(), failing{err: &lock.StoreError{Err: errLink}})
				err := acquireOf(q, claimBy("a"))
				if class := lock.ClassOf(err); class != c.class {
					t.Errorf("the class of %v is %q, want %q", err, class, c.class)
				}
				var failed *lock.StoreError
				if !errors.As(err, &failed) || failed.Unreachable != c.unreachable {
					t.Errorf("got %#v, want unreachable %v", failed, c.unreachable)
				}
				if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Errorf("%v says that the caller's time has passed", err)
				}
			})
		})
	}
}

// What a node says is worth more than that others were silent.
func TestTheClassOfAFailureIsThatOfTheFirstNodeWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := newStub()
		second.acquire = func(lock.Claim) (uint64, error) {
			time.Sleep(time.Millisecond)
			return 0, away("connection lost", errLink)
		}
		q := quorumOf(t, mute{}, second, failing{err: away("NOAUTH", errLink)})
		if err := acquireOf(q, claimBy("a")); lock.ClassOf(err) != "NOAUTH" {
			t.Errorf("the class of %v is %q", err, lock.ClassOf(err))
		}
	})
}

// A renewal has no error but the ones that it reports.
func TestARenewalThatPanicsIsAPanicToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []*faulty{{BlockingStore: memory()}, {BlockingStore: memory()}, {BlockingStore: memory()}}
		q := quorumOf(t, nodes[0], nodes[1], nodes[2])
		must(t, acquireOf(q, claimBy("a")))
		nodes[0].broken, nodes[1].broken = true, true
		err := renewOf(t.Context(), q, claimBy("a"))
		var panicked *lock.PanicError
		if !errors.As(err, &panicked) || lock.ClassOf(err) != "panic" {
			t.Errorf("got %v of class %q, want a PanicError", err, lock.ClassOf(err))
		}
		nodes[0].broken, nodes[1].broken = false, false
		must(t, q.Release(t.Context(), claimBy("a")))
	})
}

// faulty is a node whose client has a bug in renewals, from when it is broken.
type faulty struct {
	lock.BlockingStore
	broken bool
}

func (f *faulty) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if f.broken {
		panic("renew")
	}
	f.BlockingStore.Renew(ctx, claims, report)
}

// A node that is a store with a lock below it may fail with that lock's end.
func TestAFailureOfNodesThatWrapsAnAnswerIsNone(t *testing.T) {
	for _, cause := range []error{lock.ErrNotHeld, &lock.BusyError{TTL: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			nodes, stores := stubs(3)
			var failed atomic.Bool
			for _, node := range nodes {
				fail := func(or func(lock.BlockingStore) error) error {
					if failed.Load() {
						return away("connection lost", cause)
					}
					return or(node.BlockingStore)
				}
				node.acquire = func(c lock.Claim) (fence uint64, err error) {
					err = fail(func(s lock.BlockingStore) error { fence, err = s.Acquire(t.Context(), c); return err })
					return fence, err
				}
				node.renew = func(c lock.Claim) error {
					return fail(func(s lock.BlockingStore) error { return renewOf(t.Context(), s, c) })
				}
				node.release = func(c lock.Claim) error {
					return fail(func(s lock.BlockingStore) error { return s.Release(t.Context(), c) })
				}
			}
			q := quorumOf(t, stores...)
			must(t, acquireOf(q, claimBy("a")))
			failed.Store(true)
			for call, err := range map[string]error{
				"acquire": acquireOf(q, claimBy("b")),
				"renew":   renewOf(t.Context(), q, claimBy("a")),
				"release": q.Release(t.Context(), claimBy("a")),
			} {
				if _, failed := errors.AsType[*lock.StoreError](err); !failed {
					t.Errorf("%s with %v: got %v, want a failure", call, cause, err)
				}
			}
		})
	}
}

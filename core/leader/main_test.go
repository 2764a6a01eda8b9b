package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const office = "leader:billing"

var errCut = &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Unreachable: true, Err: errors.New("line cut")}

// line is one process's way to a store, which can be cut.
type line struct {
	*memstore.Store
	cut      atomic.Bool
	acquires atomic.Int32
}

func (s *line) err() error {
	if s.cut.Load() {
		return errCut
	}
	return nil
}

func (s *line) Acquire(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	s.acquires.Add(1)
	if err := s.err(); err != nil {
		answer.Answered(0, err)
		return
	}
	s.Store.Acquire(ctx, c, by, answer)
}

func (s *line) Renew(ctx context.Context, claims []lock.Claim, report func(int, error)) {
	if err := s.err(); err != nil {
		for i := range claims {
			report(i, err)
		}
		return
	}
	s.Store.Renew(ctx, claims, report)
}

func (s *line) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	if err := s.err(); err != nil {
		answer.Answered(0, err)
		return
	}
	s.Store.Release(ctx, c, by, answer)
}

func (s *line) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := s.err(); err != nil {
		return lock.State{}, err
	}
	return s.Store.Inspect(ctx, key)
}

func newLocker(t *testing.T, store lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l := lock.New(store, opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// diary is what the hooks of several candidates saw, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
	terms []uint64
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// hooks name terms by their order, and errors by the sentinel that they wrap.
func (d *diary) hooks(who string) leader.Option {
	return leader.WithHooks(leader.Hooks{
		Elected: func(_ string, term uint64) {
			d.mu.Lock()
			d.terms = append(d.terms, term)
			d.mu.Unlock()
			d.write("%s elected %d", who, d.term(term))
		},
		Resigned: func(_ string, term uint64, err error) { d.write("%s resigned %d: %v", who, d.term(term), err) },
		Lost: func(_ string, term uint64, cause error) {
			if !errors.Is(cause, lock.ErrLost) {
				cause = fmt.Errorf("not a loss: %w", cause)
			}
			d.write("%s lost %d: %v", who, d.term(term), short(cause))
		},
		Failed: func(_ string, err error) { d.write("%s failed: %v", who, short(err)) },
	})
}

func (d *diary) term(term uint64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Index(d.terms, term) + 1
}

// want checks what the hooks of each process saw. Those of two have no common order.
func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	got := d.read()
	byProcess := func(a, b string) int {
		who, _, _ := strings.Cut(a, " ")
		other, _, _ := strings.Cut(b, " ")
		return strings.Compare(who, other)
	}
	slices.SortStableFunc(got, byProcess)
	slices.SortStableFunc(want, byProcess)
	if !slices.Equal(got, want) {
		t.Errorf("hooks saw\n%q, want\n%q", got, want)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.IsSorted(d.terms) || len(slices.Compact(slices.Clone(d.terms))) != len(d.terms) {
		t.Errorf("terms do not rise: %d", d.terms)
	}
}

// short is the decision that an error carries.
func short(err error) string {
	for name, sentinel := range map[string]error{
		"store away": lock.ErrNotRenewed, "taken": lock.ErrTaken, "forced": lock.ErrForced,
		"lease over": lock.ErrExpired, "too long": lock.ErrHeldTooLong, "unavailable": lock.ErrUnavailable, "busy": lock.ErrBusy,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	return fmt.Sprint("other: ", err)
}

func wantErr(t *testing.T, err error, wants ...error) {
	t.Helper()
	for _, want := range wants {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want it to match %q", err, want)
		}
	}
}

// run calls leader.Run on a new goroutine.
func run(ctx context.Context, l *lock.Locker, fn func(context.Context, uint64) error, opts ...leader.Option) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- leader.Run(ctx, l, office, fn, opts...) }()
	return ended
}

// until is what most leaders do: they work until their context ends.
func until(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

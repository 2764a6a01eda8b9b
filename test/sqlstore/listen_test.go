package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redlatch/redlatch/contrib/pgxlisten"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// quiet is a logger that nobody reads.
var quiet = sqlstore.WithLogger(slog.New(slog.DiscardHandler))

func listener(t testing.TB, address string) *pgxlisten.Listener {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	return pgxlisten.New(config)
}

func TestContractWithNotifications(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	contract(t, sqlstore.PostgreSQL, func() *sql.DB { return postgres(t, address, nil) }, sqlstore.WithListener(listener(t, address)))
}

// counted counts what a listener hears, and can be cut off.
type counted struct {
	sqlstore.Listener
	ready  chan struct{}
	cut    atomic.Pointer[context.CancelFunc]
	broken atomic.Bool
	mu     sync.Mutex
	heard  []string
}

func newCounted(l sqlstore.Listener) *counted {
	return &counted{Listener: l, ready: make(chan struct{}, 100)}
}

func (c *counted) Listen(ctx context.Context, channel string, ready func(), notify func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.cut.Store(&cancel)
	if c.broken.Load() {
		return errors.New("broken")
	}
	return c.Listener.Listen(ctx, channel, func() { ready(); c.ready <- struct{}{} }, func(p string) {
		c.mu.Lock()
		c.heard = append(c.heard, p)
		c.mu.Unlock()
		notify(p)
	})
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heard)
}

// NOTIFY has a lock of the whole cluster: a release that nobody waits for makes none.
func TestOnlyReleasesThatSomebodyWaitsForAreNotified(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	hears := newCounted(listener(t, address))
	here := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL))
	there := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL, sqlstore.WithListener(hears)))
	visit := func(key string) {
		t.Helper()
		c := lock.Claim{Key: key, Owner: "a:1", TTL: time.Minute}
		if _, err := here.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := here.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	visit("used") // it has a row, and the other key has none
	wanted := []string{"used", "new"}
	woken := make(chan struct{}, 100)
	for _, key := range wanted {
		stop, err := there.Watch(t.Context(), lock.Claim{Key: key, Owner: "b:1"}, func() { woken <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	<-hears.ready
	visit("unwanted")
	for _, key := range wanted {
		visit(key)
	}
	eventually(t, "notifications", func() bool { return hears.count() >= len(wanted) })
	if n := hears.count(); n != len(wanted) {
		t.Errorf("%d notifications, want %d", n, len(wanted))
	}
	<-woken // perhaps by a poll from before it listened
}

// The listener ends when nobody has needed it for a moment. Who comes in that moment waits
// for the next one, and misses nothing from then on.
func TestForcedReleasesAreHeardHoweverTheListenerComesAndGoes(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	operator := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL))
	there := store(t, postgres(t, address, nil), sqlstore.PostgreSQL, sqlstore.WithListener(listener(t, address)), quiet)
	for round := range 30 {
		key := fmt.Sprint("k", round)
		heard := make(chan string, 10)
		stop, err := there.Announced(t.Context(), func(locker, name string) { heard <- locker + " " + name })
		if err != nil {
			t.Fatal(err)
		}
		granted(t, operator, claim(key, "a:1", lock.Exclusive))
		if freed, err := operator.ForceRelease(t.Context(), key); err != nil || !freed {
			t.Fatal(freed, err)
		}
		select {
		case got := <-heard:
			if got != "a "+there.NameOf(key) {
				t.Errorf("heard %q", got)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: nothing was heard", round)
		}
		stop()
		<-time.After(180*time.Millisecond + time.Duration(round)*5*time.Millisecond) // until the listener ends, about
	}
}

// While the listener is away, waiters poll, and they hear of what happens as it comes back.
func TestWaitersHearOfReleasesWhileTheListenerIsAway(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	hears := newCounted(listener(t, address))
	here := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL))
	there := store(t, postgres(t, address, nil), sqlstore.PostgreSQL, sqlstore.WithListener(hears), quiet)
	waiter := lock.New(there, lock.WithPoll(time.Minute))
	t.Cleanup(func() { _ = waiter.Close(context.Background()) })
	for round := range 4 {
		hears.broken.Store(round%2 == 1)
		if cut := hears.cut.Load(); cut != nil {
			(*cut)()
		}
		c := lock.Claim{Key: "k", Owner: "a:1", TTL: time.Minute}
		if _, err := here.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			lease, err := waiter.Acquire(ctx, "k")
			if err == nil {
				err = lease.Release(ctx)
			}
			got <- err
		}()
		<-time.After(100 * time.Millisecond) // it waits, or is about to
		if err := here.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// A transaction's release is heard when it commits.
func TestACommitNotifies(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	data := postgres(t, address, nil)
	here := store(t, postgres(t, address, nil), sqlstore.PostgreSQL)
	holder := lock.New(here)
	t.Cleanup(func() { _ = holder.Close(context.Background()) })
	there := lock.Blocking(store(t, postgres(t, address, nil), sqlstore.PostgreSQL, sqlstore.WithListener(listener(t, address))))
	woken := make(chan struct{}, 100)
	err := here.InTx(t.Context(), holder, data, "k", func(context.Context, *sql.Tx) error {
		stop, err := there.Watch(t.Context(), lock.Claim{Key: "k", Owner: "b:1"}, func() { woken <- struct{}{} })
		if err != nil {
			return err
		}
		t.Cleanup(stop)
		<-woken // it listens from now on
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-woken
}

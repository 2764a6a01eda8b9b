package recipes_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/recipes"
)

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func TestWhyALeaderEndsIsLogged(t *testing.T) {
	var log lines
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	db, guards := database(t)
	locker := process(t, memstore.New())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- recipes.Bill(ctx, locker, db, guards, time.Hour, func(context.Context, *sql.Tx) error { return errors.New("no paper") })
	}()
	eventually(t, "the error is logged", func() bool { return log.has("no paper") })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Bill: %v", err)
	}
}

// The leader loses its lock without noticing, and another one leads. Then the new
// one stops. At no time two of them write.
func TestOneProcessBills(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			db, guards := database(t)
			run(t, db, `CREATE TABLE bills (process INTEGER NOT NULL)`)
			turns := func() []int64 {
				return slices.Compact(query[int64](t, db, `SELECT process FROM bills ORDER BY rowid`))
			}
			stops := make([]context.CancelFunc, 3)
			var fleet sync.WaitGroup
			defer fleet.Wait()
			for i := range stops {
				locker := process(t, store)
				ctx, stop := context.WithCancel(context.Background())
				stops[i] = stop
				defer stop()
				fleet.Go(func() {
					err := recipes.Bill(ctx, locker, db, guards, time.Millisecond, func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, `INSERT INTO bills (process) VALUES (?)`, i)
						return err
					})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("Bill: %v", err)
					}
				})
			}
			eventually(t, "one bills", func() bool { return len(turns()) == 1 })
			force(t, store, "leader:billing")
			eventually(t, "another one bills", func() bool { return len(turns()) == 2 })
			stops[turns()[1]]()
			eventually(t, "a third turn", func() bool { return len(turns()) == 3 })
			if got := turns(); len(got) != 3 || got[0] == got[1] || got[1] == got[2] {
				t.Errorf("the processes billed in the order %v", got)
			}
		})
	}
}

package sqlstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// statements counts the statements of a pool.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Each statement renews up to 1,000 locks. By default they are renewed every 10 s, so that
// 200 statements for 10,000 locks are 20 a second.
func TestTenThousandHeldLocksAreFewStatements(t *testing.T) {
	t.Parallel()
	address := sharedPostgres.database(t)
	count := new(statements)
	const n, most, watchdog = 10_000, 200, 15 * time.Second
	l := lock.New(store(t, postgres(t, address, func(c *pgx.ConnConfig) { c.Tracer = count }), sqlstore.PostgreSQL), lock.WithWatchdog(watchdog), lock.WithCallTimeout(14*time.Second))
	defer l.Close(context.Background())
	var done sync.WaitGroup
	const callers = 8 // as many as connections
	for i := range callers {
		done.Go(func() {
			for k := i; k < n; k += callers {
				if _, err := l.Acquire(t.Context(), fmt.Sprint("held:", k)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	db := postgres(t, address, nil)
	const now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	sent, from := count.n.Load(), number(t, db, "SELECT "+now)
	eventually(t, "every lock is renewed", func() bool {
		return number(t, db, "SELECT MIN(expires) FROM redlatch_locks") > from+int(watchdog/time.Microsecond)
	})
	spent := count.n.Load() - sent
	t.Logf("%d statements renewed %d locks", spent, n)
	if spent > most {
		t.Errorf("%d statements, want at most %d", spent, most)
	}
	held := 0
	err := db.QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM redlatch_locks WHERE expires > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&held)
	if err != nil || held != n {
		t.Errorf("%d are held, %v; want %d", held, err, n)
	}
}

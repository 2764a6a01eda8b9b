package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/sqlstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// fleet is how many processes a contender stands for.
const fleet = 8

// cycle acquires and releases a key as one of the processes.
type cycle func(ctx context.Context, process int, key string) error

// contenders are all that a benchmark compares. Servers flush what they commit.
func contenders(b *testing.B) map[string]func(b *testing.B) cycle {
	b.Helper()
	return map[string]func(b *testing.B) cycle{
		"sqlstore PostgreSQL polling": func(b *testing.B) cycle {
			b.Helper()
			address := sqltest.StartPostgres(b, "fsync=on").URL()
			return byLockers(b, func() lock.Store { return store(b, postgres(b, address, nil), sqlstore.PostgreSQL) })
		},
		"sqlstore PostgreSQL NOTIFY": func(b *testing.B) cycle {
			b.Helper()
			address := sqltest.StartPostgres(b, "fsync=on").URL()
			return byLockers(b, func() lock.Store {
				return store(b, postgres(b, address, nil), sqlstore.PostgreSQL, sqlstore.WithListener(listener(b, address)))
			})
		},
		"sqlstore MariaDB": func(b *testing.B) cycle {
			b.Helper()
			address := sqltest.StartMariaDB(b, "--innodb-flush-log-at-trx-commit=1").URL()
			return byLockers(b, func() lock.Store { return store(b, mariadb(b, address, nil), sqlstore.MySQL) })
		},
		"sqlstore SQLite": func(b *testing.B) cycle {
			b.Helper()
			file := filepath.Join(b.TempDir(), "locks.db")
			return byLockers(b, func() lock.Store { return store(b, sqlite(b, file), sqlstore.SQLite) })
		},
		"redisstore": func(b *testing.B) cycle {
			b.Helper()
			server := redistest.Standalone(b, "--appendonly", "yes", "--appendfsync", "always")
			return byLockers(b, func() lock.Store {
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), DisableIdentity: true})
				b.Cleanup(func() { _ = rdb.Close() })
				return redisstore.New(rdb)
			})
		},
		"session advisory lock": func(b *testing.B) cycle {
			b.Helper()
			pools := pools(b)
			return func(ctx context.Context, process int, key string) error {
				conn, err := pools[process].Conn(ctx)
				if err != nil {
					return err
				}
				defer conn.Close()
				if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", key); err != nil {
					return err
				}
				_, err = conn.ExecContext(ctx, "SELECT pg_advisory_unlock(hashtext($1))", key)
				return err
			}
		},
		"SELECT FOR UPDATE": func(b *testing.B) cycle {
			b.Helper()
			pools := pools(b)
			if _, err := pools[0].ExecContext(b.Context(), "CREATE TABLE rows (key text PRIMARY KEY, n int NOT NULL DEFAULT 0)"); err != nil {
				b.Fatal(err)
			}
			var known sync.Map
			return func(ctx context.Context, process int, key string) error {
				if _, there := known.LoadOrStore(key, true); !there {
					if _, err := pools[process].ExecContext(ctx, "INSERT INTO rows VALUES ($1) ON CONFLICT DO NOTHING", key); err != nil {
						return err
					}
				}
				tx, err := pools[process].BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
				if _, err := tx.ExecContext(ctx, "SELECT n FROM rows WHERE key = $1 FOR UPDATE", key); err != nil {
					return err
				}
				return tx.Commit()
			}
		},
	}
}

// pools are those of the processes, for locks that need a connection each.
func pools(b *testing.B) (all [fleet]*sql.DB) {
	b.Helper()
	address := sqltest.StartPostgres(b, "fsync=on", "max_connections=300").URL()
	for i := range all {
		all[i] = pool(b, postgres(b, address, nil), 16)
	}
	return all
}

func byLockers(b *testing.B, open func() lock.Store) cycle {
	b.Helper()
	var lockers [fleet]*lock.Locker
	for i := range lockers {
		lockers[i] = lock.New(open())
		b.Cleanup(func() { _ = lockers[i].Close(context.Background()) })
	}
	return func(ctx context.Context, process int, key string) error {
		lease, err := lockers[process].Acquire(ctx, key)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

// spread runs b.N cycles on that many goroutines, and reports how many a second.
func spread(b *testing.B, goroutines int, run cycle, key func(goroutine int) string) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	began := time.Now()
	var done sync.WaitGroup
	for i := range goroutines {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				if err := run(b.Context(), i%fleet, key(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "cycles/s")
}

// BenchmarkOwnKeys: each goroutine has a key of its own.
func BenchmarkOwnKeys(b *testing.B) {
	for name, start := range contenders(b) {
		b.Run(name, func(b *testing.B) {
			run := start(b)
			for _, goroutines := range []int{1, 16, 128} {
				b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
					spread(b, goroutines, run, func(i int) string { return fmt.Sprint("own:", i) })
				})
			}
		})
	}
}

// BenchmarkHotKey: 16 goroutines of each process want one key.
func BenchmarkHotKey(b *testing.B) {
	for name, start := range contenders(b) {
		b.Run(name, func(b *testing.B) {
			run := start(b)
			b.Run("128", func(b *testing.B) { spread(b, 16*fleet, run, func(int) string { return "hot" }) })
		})
	}
}

// BenchmarkHandOff: one goroutine of each of two processes, so that each release is for
// the other one.
func BenchmarkHandOff(b *testing.B) {
	for name, start := range contenders(b) {
		b.Run(name, func(b *testing.B) {
			run := start(b)
			b.Run("2", func(b *testing.B) { spread(b, 2, run, func(int) string { return "hot" }) })
		})
	}
}

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

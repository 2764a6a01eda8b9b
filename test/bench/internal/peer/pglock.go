package peer

import (
	"context"
	"database/sql"
	"errors"

	"cirello.io/pglock"
)

type pgLocker struct {
	client *pglock.Client
	db     *sql.DB
	*statements
}

type pgLock struct {
	client *pglock.Client
	lock   *pglock.Lock
}

func preparePglock(_ context.Context, addr string) error {
	db, err := onPostgres(addr)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // the table is there
	client, err := pglock.UnsafeNew(db)
	if err != nil {
		return err
	}
	return client.CreateTable()
}

// openPglock opens a client on the driver that the others have.
func openPglock(s Settings) (Locker, error) {
	db, count, err := postgres(s.Addr, fewConnections)
	if err != nil {
		return nil, err
	}
	client, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(s.Lease), pglock.WithHeartbeatFrequency(s.Lease/3))
	return pgLocker{client, db, count}, err
}

func (l pgLocker) Lock(ctx context.Context, key string) (Held, error) { return l.acquire(ctx, key) }

func (l pgLocker) TryLock(ctx context.Context, key string) (Held, error) {
	held, err := l.acquire(ctx, key, pglock.FailIfLocked())
	if errors.Is(err, pglock.ErrNotAcquired) && ctx.Err() == nil {
		return nil, ErrBusy
	}
	return held, err
}

func (l pgLocker) Keep(ctx context.Context, key string) (Held, error) { return l.acquire(ctx, key) }

func (l pgLocker) acquire(ctx context.Context, key string, opts ...pglock.LockOption) (Held, error) {
	held, err := l.client.AcquireContext(ctx, key, opts...)
	if err != nil {
		return nil, err
	}
	return pgLock{l.client, held}, nil
}

func (l pgLocker) Close() error { return l.db.Close() }

func (l pgLock) Unlock(ctx context.Context) error { return l.client.ReleaseContext(ctx, l.lock) }

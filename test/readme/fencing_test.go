package readme_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/quorum"
	"github.com/redlatch/redlatch/core/redisstore"
)

// What follows is compiled, for docs/fencing.md, docs/quorum.md and docs/migrate.md.
// The tests of the packages, and of test/fence, run it.

var _ = func(ctx context.Context, lease *lock.Lease, db *sql.DB, id int) error {
	token, err := fence.Of(lease) // ErrUnsupported for Read and Semaphore leases: others hold them too
	if err != nil {
		return err
	}

	stock, err := fence.NewTable(fence.PostgreSQL, "stock", fence.Columns{}) // once; columns id, fence, fence_owner
	if err != nil {
		return err
	}
	if err := stock.Check(ctx, db); err != nil {
		return err // at the start: a column is missing
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	if err := stock.Claim(ctx, tx, id, token); err != nil {
		return err // fence.ErrStale: a newer holder was here
	}
	// read, decide, write
	return tx.Commit()
}

var _ = func(ctx context.Context, stock *fence.Table, token fence.Token, tx *sql.Tx, id, n int) error {
	condition, args := stock.Where(token, 3) // "fence" = $3 AND "fence_owner" = $4
	result, err := tx.ExecContext(ctx, `UPDATE stock SET n = $1 WHERE id = $2 AND `+condition, append([]any{n, id}, args...)...)
	if err != nil {
		return err
	}
	return stock.Confirm(ctx, tx, id, token, result) // fence.ErrStale: roll back
}

var _ = func(ctx context.Context, token fence.Token, tx *sql.Tx) error {
	guards, err := fence.NewGuards(fence.MySQL, "guards", fence.Columns{}) // guards.Schema() is the CREATE TABLE of the dialect
	if err != nil {
		return err
	}
	return guards.Claim(ctx, tx, "order:42", token) // first in the transaction
}

var _ = func(ctx context.Context, locker *lock.Locker, db *sql.DB, guards *fence.Guards, place func(context.Context, *sql.Tx) error) error {
	err := guards.InTx(ctx, locker, db, "order:42", func(ctx context.Context, tx *sql.Tx) error {
		return place(ctx, tx) // no Commit, no Rollback
	})
	return err
}

var _ = func(signer *fence.Signer, guards *fence.Guards, db *sql.DB, mux *http.ServeMux, orders http.Handler) *http.Client {
	client := &http.Client{Transport: &fence.Transport{Signer: signer}} // the token of the lease in the request's context
	gate := &fence.Gate{Store: guards.On(db), Signer: signer, Key: func(r *http.Request) (string, error) {
		return "order:" + r.PathValue("id"), nil // the key of the lock that the sender must have
	}}
	mux.Handle("PUT /orders/{id}", gate.Handler(orders))
	return client
}

var _ = func(ctx context.Context, work func(*lock.Locker) error) error {
	var stores []lock.Store
	for _, addr := range []string{"redis-a:6379", "redis-b:6379", "redis-c:6379", "redis-d:6379", "redis-e:6379"} {
		stores = append(stores, redisstore.New(redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})))
	}
	store, err := quorum.New(stores...)
	if err != nil {
		return err
	}
	locker := lock.New(store)
	err = work(locker)
	return errors.Join(err, locker.Close(ctx), store.Close(ctx)) // then close the clients
}

var _ = func(rdb *redis.Client) *redisstore.Store {
	store := redisstore.New(rdb, redisstore.WithReplicas(1, 200*time.Millisecond))
	return store
}

var _ = func(rdb *redis.Client) *lock.Locker {
	store := redisstore.New(rdb, redisstore.WithSETNX())
	locker := lock.New(store, lock.WithPoll(100*time.Millisecond)) // while old processes run
	return locker
}

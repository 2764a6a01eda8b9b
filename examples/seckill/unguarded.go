//go:build seckill_unguarded

package main

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/examples/seckill/internal/app"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// unguarded takes the guards away, one by one, to show what each is for. The
// flags exist only in programs built with the tag seckill_unguarded.
//
//	                    one order per user    sold ≤ stock
//	                    the lock or the index keeps it, stock is the database's alone
//	(none)              holds                 holds
//	--no-lock           holds                 holds
//	--no-db-guard       holds                 may break
//	both                breaks                may break
type unguarded struct {
	NoLock    bool          `help:"Let orders over HTTP pass without the lock."`
	NoDBGuard bool          `name:"no-db-guard" help:"Drop the unique index, ignore fences, and place orders in separate statements: look, then write. It changes the database for good."`
	Pause     time.Duration `placeholder:"TIME" help:"Wait between the lock (with --no-db-guard: the look) and the write. Default none."`
}

// Validate is called when the flags are read.
func (u unguarded) Validate() error {
	if u.Pause < 0 {
		return errors.New("--pause: must not be negative")
	}
	return nil
}

func (u unguarded) variant() app.Variant {
	var v app.Variant
	switch {
	case u.NoDBGuard:
		v.Store = func(ctx context.Context, s *store.Store) (voucher.Store, error) {
			return store.NewNaive(ctx, s, u.Pause)
		}
	case u.Pause > 0:
		v.Store = func(_ context.Context, s *store.Store) (voucher.Store, error) {
			return store.Slow{Store: s, Pause: u.Pause}, nil
		}
	}
	if u.NoLock {
		v.OrderLock = func(*guard.Guard) web.OrderLock { return web.Unlocked() }
	}
	return v
}

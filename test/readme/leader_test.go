package readme_test

import (
	"context"
	"database/sql"
	"log"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
)

// For docs/leader.md.
var _ = func(ctx context.Context, locker *lock.Locker, bill func(context.Context, uint64) error) error {
	err := leader.Run(ctx, locker, "leader:billing", func(ctx context.Context, term uint64) error {
		return bill(ctx, term) // until ctx ends
	}, leader.WithName("billing"), leader.WithRepeat())
	return err
}

var _ = func() leader.Option {
	said := leader.WithHooks(leader.Hooks{
		Resigned: func(name string, term uint64, err error) { log.Printf("%s: term %d has ended: %v", name, term, err) },
		Failed:   func(name string, err error) { log.Printf("%s: not elected, trying again: %v", name, err) },
	})
	return said
}

var _ = func() leader.Option {
	exit := leader.WithHooks(leader.Hooks{
		Lost: func(name string, term uint64, cause error) { log.Fatalf("%s: term %d is lost: %v", name, term, cause) },
	})
	return exit
}

var _ = func(ctx context.Context, locker *lock.Locker, report func(context.Context) error) error {
	elector := leader.NewElector(locker, "leader:jobs")
	go func() { log.Printf("no longer a candidate: %v", elector.Run(ctx)) }()

	err := elector.Do(ctx, report) // lock.ErrNotHeld: another instance leads, and report did not run
	return err
}

var _ = func(ctx context.Context, guards *fence.Guards, tx *sql.Tx) error {
	lease, _ := lock.FromContext(ctx) // the leader's
	token, err := fence.Of(lease)     // its fence is the term
	if err != nil {
		return err
	}
	err = guards.Claim(ctx, tx, "leader:billing", token) // fence.ErrStale: there is a newer leader
	return err
}

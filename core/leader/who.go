package leader

import (
	"context"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// Leader is a snapshot of who leads. The zero value means that nobody does.
type Leader struct {
	// ID is the [lock.Locker.ID] of the leader's locker.
	ID string
	// TTL is how long the leader stays in office if it doesn't renew.
	TTL time.Duration
}

// Who reports which process leads. The answer may be out of date when it returns:
// display it, or route requests by it, but don't use it to decide whether to act as
// the leader. The errors are those of [lock.Locker.Inspect].
func Who(ctx context.Context, locker *lock.Locker, key string) (Leader, error) {
	state, err := locker.Inspect(ctx, key)
	if err != nil || len(state.Owners) == 0 || state.Owners[0].Kept {
		return Leader{}, err
	}
	owner := state.Owners[0].Owner
	return Leader{ID: owner[:max(0, strings.LastIndexByte(owner, ':'))], TTL: state.TTL}, nil
}

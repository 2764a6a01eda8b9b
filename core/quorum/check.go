package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redlatch/redlatch/core/lock"
)

// checker is a node with a method Check, such as those of redisstore.
type checker interface {
	Check(ctx context.Context, modes ...lock.Mode) error
}

// Check tests at start-up whether every node can keep locks, by the Check method of
// each node; a node without one passes. All are checked at once. The error names
// each node that failed by its position in [New], from 1, and wraps its error. It
// is for operators.
//
// A quorum works while a minority of its nodes fails, so a program may log the
// error and start. Modes other than [lock.Exclusive] are refused with
// [lock.ErrUnsupported].
func (q *Store) Check(ctx context.Context, modes ...lock.Mode) error {
	for _, mode := range modes {
		if err := check(lock.Claim{Mode: mode}); err != nil {
			return err
		}
	}
	failed := make([]error, len(q.nodes))
	var checks sync.WaitGroup
	for i, n := range q.nodes {
		if c, ok := n.store.(checker); ok {
			checks.Go(func() {
				_, err := recovered(func() (struct{}, error) { return struct{}{}, c.Check(ctx, modes...) })
				if err != nil {
					failed[i] = fmt.Errorf("node %d: %w", i+1, err)
				}
			})
		}
	}
	checks.Wait()
	return errors.Join(failed...)
}

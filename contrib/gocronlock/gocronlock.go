// Package gocronlock makes a fleet of gocron schedulers (version 2) run each job
// in one instance.
//
// [New] makes a gocron.Locker, with which the instances share the jobs. With
// [lock.WithMinHold] each job runs once per tick, although clocks differ. A
// [leader.Elector] is a gocron.Elector as it is: with it, the leader runs all jobs.
// The README says what neither can do.
package gocronlock

import (
	"context"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
)

var _ gocron.Elector = (*leader.Elector)(nil)

// Locker implements [gocron.Locker]. Use [New].
type Locker struct {
	locker *lock.Locker
	prefix string
	opts   []lock.Option
}

// New returns a locker of jobs: while one instance runs a job, the others skip it.
// The key of a job is the prefix with its name behind. Give jobs names: that of a
// func is the default, and changes with the code. The options are those of the
// lock; locks are tried, never waited for. Without [lock.WithMinHold] an instance
// whose clock is late runs a job again that has ended by then. A wrong option makes
// New panic: no job would ever run. What the store doesn't support ([lock.ErrUnsupported])
// shows with the first job.
func New(locker *lock.Locker, prefix string, opts ...lock.Option) *Locker {
	if err := locker.Check(prefix+"name", opts...); err != nil {
		panic("gocronlock.New: " + err.Error()) //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return &Locker{locker: locker, prefix: prefix, opts: append(slices.Clip(opts), lock.WithoutReentry())}
}

// Lock implements [gocron.Locker]. Its error wraps [lock.ErrBusy] when another
// instance runs the job, and [lock.ErrUnavailable] when the store doesn't answer:
// the job is skipped then. gocron passes it to the job's listener
// AfterLockError, and says nothing if there is none.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	lease, err := l.locker.TryAcquire(ctx, l.prefix+name, l.opts...)
	if err != nil {
		return nil, err
	}
	return held{lease}, nil
}

type held struct{ *lock.Lease }

// Unlock implements [gocron.Lock].
func (h held) Unlock(ctx context.Context) error { return h.Release(ctx) }

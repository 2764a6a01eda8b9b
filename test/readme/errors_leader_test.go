package readme_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/leader"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// TestErrorsOfLeadersInTheManual: what docs/errors.md quotes is what a user gets who makes
// the mistake.
func TestErrorsOfLeadersInTheManual(t *testing.T) {
	const key = "leader:billing"
	bill := func(context.Context, uint64) error { return nil }
	closed := lock.New(memstore.New())
	if err := closed.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	locker := guardtest.Locker(t, memstore.New())
	run := func(code string, locker *lock.Locker, key string, fn func(context.Context, uint64) error, opts ...leader.Option) guardtest.Mistake {
		return guardtest.Returned(code, "the error of Run", leader.Run(t.Context(), locker, key, fn, opts...))
	}
	idle := leader.NewElector(locker, key)
	guardtest.Listed(t, "../../docs/errors.md", "Leaders", []guardtest.Mistake{
		run(`leader.Run(ctx, nil, "leader:billing", bill)`, nil, key, bill),
		run(`leader.Run(ctx, locker, "leader:billing", nil)`, locker, key, nil),
		run(`leader.Run(ctx, locker, "", bill)`, locker, "", bill),
		run(`leader.Run(ctx, closed, "leader:billing", bill)`, closed, key, bill),
		run(`leader.WithLock(lock.WithWatchdog(time.Millisecond))`, locker, key, bill, leader.WithLock(lock.WithWatchdog(time.Millisecond))),
		run(`leader.WithLock(lock.WithWatchdog(-1))`, locker, key, bill, leader.WithLock(lock.WithWatchdog(-1))),
		run(`leader.WithLock(lock.WithHandoff(0, 0)) // an option of lock.New`, locker, key, bill, leader.WithLock(lock.WithHandoff(0, 0))),
		run(`leader.Run(ctx, locker, "leader:billing", bill) // ctx is that of this leader`, locker, key, func(ctx context.Context, _ uint64) error {
			return leader.Run(ctx, locker, key, bill)
		}),
		guardtest.AtStartPanics(`leader.NewElector(nil, "leader:jobs")`, func() { leader.NewElector(nil, "leader:jobs") }),
		guardtest.AtStartPanics(`leader.NewElector(locker, "leader:jobs", leader.WithLock(lock.WithWatchdog(1)))`, func() {
			leader.NewElector(locker, "leader:jobs", leader.WithLock(lock.WithWatchdog(1)))
		}),
		guardtest.Returned(`elector.Do(ctx, report) // without elector.Run`, "the error of Do", idle.Do(t.Context(), func(context.Context) error { return nil })),
		guardtest.Returned(`elector.Run(ctx) // a second time`, "the error of Run", twice(t, leader.NewElector(locker, "leader:jobs"))),
		{Code: `leader.WithLock(lock.WithLease(time.Minute)) // bill takes longer`, Found: "in the log", Message: lostTerm(t)},
	})
}

// twice calls Run of an elector while it runs.
func twice(t *testing.T, e *leader.Elector) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- e.Run(ctx) }()
	for e.IsLeader(ctx) != nil {
		runtime.Gosched()
	}
	err := e.Run(ctx)
	stop()
	_ = guardtest.Receive(t, first, "the end of the first call")
	return err
}

// lostTerm is what is logged of a term whose lease has a fixed length.
func lostTerm(t *testing.T) (said string) {
	t.Helper()
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "term" {
				return slog.Attr{}
			}
			return a
		}})))
		ctx, stop := context.WithCancel(t.Context())
		locker := lock.New(memstore.New())
		_ = leader.Run(ctx, locker, "leader:billing", func(term context.Context, _ uint64) error {
			<-term.Done()
			stop()
			return nil
		}, leader.WithName("billing"), leader.WithLock(lock.WithLease(time.Minute)))
		if err := locker.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return log.String()
}

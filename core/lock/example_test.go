package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func Example() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	lease, err := locker.Acquire(ctx, "order:42", lock.WithWait(time.Second))
	if errors.Is(err, lock.ErrBusy) {
		fmt.Println("somebody else is at it")
		return
	}
	if err != nil {
		fmt.Println("not locked, not done:", err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()
	fmt.Println("working on", lease.Key(), lease.Context().Err())
	// Output: working on order:42 <nil>
}

func ExampleLocker_Do() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	err := locker.Do(ctx, "order:42", func(ctx context.Context) error {
		return lock.AssertHeld(ctx, "order:42")
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	_, _ = locker.TryAcquire(ctx, "job:nightly")
	_, err := locker.TryAcquire(ctx, "job:nightly")
	fmt.Println(errors.Is(err, lock.ErrBusy))
	// Output: true
}

func ExampleFromContext() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	_ = locker.Do(ctx, "order:42", func(ctx context.Context) error {
		lease, _ := lock.FromContext(ctx)
		// UPDATE … SET fence = ? WHERE id = ? AND fence < ?
		fmt.Println(lease.Fence() > 0)
		return nil
	})
	// Output: true
}

package readme_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

func work(ctx context.Context, fence uint64) error {
	fmt.Println("working:", ctx.Err() == nil && fence > 0)
	return nil
}

func order(ctx context.Context, locker *lock.Locker) error {
	lease, err := locker.Acquire(ctx, "order:42", lock.WithWait(200*time.Millisecond))
	if err != nil {
		return err // errors.Is(err, lock.ErrBusy): another owner holds it; nothing ran
	}
	defer lease.Release(ctx)                    //nolint:errcheck // the work is done, and the lease was watched
	return work(lease.Context(), lease.Fence()) // a context that ends with the lease
}

func Example_lease() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)

	fmt.Println(order(ctx, locker))
	lease, _ := locker.TryAcquire(ctx, "order:42")
	err := order(ctx, locker)
	fmt.Println(errors.Is(err, lock.ErrBusy), errors.Is(err, context.DeadlineExceeded))
	_ = lease.Release(ctx)
	// Output:
	// working: true
	// <nil>
	// true true
}

func transfer(ctx context.Context, locker *lock.Locker) error {
	all, err := lock.AcquireAll(ctx, locker.Request("account:7"), locker.Request("account:3"))
	if err != nil {
		return err // none is held
	}
	defer all.Release(ctx) //nolint:errcheck // the work is done, and the leases were watched
	for _, lease := range all.Each() {
		fmt.Println(lease.Key())
	}
	return all.Context().Err()
}

func Example_all() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)

	fmt.Println(transfer(ctx, locker))
	// Output:
	// account:3
	// account:7
	// <nil>
}

func report(context.Context) error {
	fmt.Println("reported")
	return nil
}

func tick(ctx context.Context, locker *lock.Locker) error {
	// Each instance calls this every minute. One of them runs the job.
	err := locker.Do(ctx, "job:report", report, lock.WithWait(0), lock.WithMinHold(50*time.Second))
	if errors.Is(err, lock.ErrBusy) {
		return nil // another instance runs it, or has run it
	}
	return err
}

func Example_minHold() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)

	fmt.Println(tick(ctx, locker))
	fmt.Println(tick(ctx, locker))
	// Output:
	// reported
	// <nil>
	// <nil>
}

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// Two processes, each with its own locker, queue for one job. They are
// served in the order in which they came, whichever of them calls more often.
func ExampleWithMode_fair() {
	ctx := context.Background()
	store := memstore.New()
	here := lock.New(store, lock.WithMode(lock.Fair))
	there := lock.New(store, lock.WithMode(lock.Fair))
	defer func() { _, _ = here.Close(ctx), there.Close(ctx) }()

	running, _ := here.Acquire(ctx, "job")
	served := make(chan error)
	for i, locker := range []*lock.Locker{there, here, there} {
		go func() {
			served <- locker.Do(ctx, "job", func(context.Context) error {
				fmt.Println("number", i+1)
				return nil
			})
		}()
		awaitQueue(ctx, here, "job", i+1)
	}
	_ = running.Release(ctx)
	for range 3 {
		if err := <-served; err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// number 1
	// number 2
	// number 3
}

// awaitQueue returns when n owners are queued for key.
func awaitQueue(ctx context.Context, locker *lock.Locker, key string, n int) {
	for {
		state, err := locker.Inspect(ctx, key)
		if err != nil || len(state.Waiters) >= n {
			return
		}
		runtime.Gosched()
	}
}

// Readers share a key; a writer has it alone.
func ExampleWithMode_readWrite() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()
	reading, writing := lock.WithMode(lock.Read), lock.WithMode(lock.Write)

	one, _ := locker.TryAcquire(ctx, "catalog", reading)
	two, err := locker.TryAcquire(ctx, "catalog", reading)
	fmt.Println("second reader:", err)
	_, err = locker.TryAcquire(ctx, "catalog", writing)
	fmt.Println("writer:", errors.Is(err, lock.ErrBusy))

	// A reader does not become a writer: it would wait for itself.
	_, err = locker.Acquire(one.Context(), "catalog", writing)
	fmt.Println("upgrade:", errors.Is(err, lock.ErrInvalid))
	_, _ = one.Release(ctx), two.Release(ctx)
	// Output:
	// second reader: <nil>
	// writer: true
	// upgrade: true
}

// A writer that goes on reading lets other readers in, and no other writer in
// between. It acquires the read lock with a context that carries its write
// lease, but does not end with it.
func ExampleWithMode_downgrade() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()
	reading, writing := lock.WithMode(lock.Read), lock.WithMode(lock.Write)

	write, _ := locker.Acquire(ctx, "catalog", writing)
	_, err := locker.TryAcquire(ctx, "catalog", reading)
	fmt.Println("a reader next to the writer:", errors.Is(err, lock.ErrBusy))

	read, _ := locker.Acquire(context.WithoutCancel(write.Context()), "catalog", reading)
	_ = write.Release(ctx)
	fmt.Println("still reading:", read.Context().Err() == nil)
	other, err := locker.TryAcquire(ctx, "catalog", reading)
	fmt.Println("a reader next to the reader:", err)
	_, err = locker.TryAcquire(ctx, "catalog", writing)
	fmt.Println("the next writer:", errors.Is(err, lock.ErrBusy))
	_, _ = other.Release(ctx), read.Release(ctx)
	// Output:
	// a reader next to the writer: true
	// still reading: true
	// a reader next to the reader: <nil>
	// the next writer: true
}

// At most three reports are built at once, and a large one counts for two.
func ExampleWithPermits() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()
	const size = 3

	large, _ := locker.TryAcquire(ctx, "reports", lock.WithPermits(2, size))
	small, err := locker.TryAcquire(ctx, "reports", lock.WithPermits(1, size))
	fmt.Println("large and small:", err)
	_, err = locker.TryAcquire(ctx, "reports", lock.WithPermits(1, size))
	fmt.Println("one more:", errors.Is(err, lock.ErrBusy))
	_ = large.Release(ctx)
	again, err := locker.TryAcquire(ctx, "reports", lock.WithPermits(2, size))
	fmt.Println("without the large one:", err)
	_, _ = small.Release(ctx), again.Release(ctx)
	// Output:
	// large and small: <nil>
	// one more: true
	// without the large one: <nil>
}

// With WithoutReentry an owner's second acquisition is a mistake that shows.
func ExampleWithoutReentry() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	err := locker.Do(ctx, "order:42", func(ctx context.Context) error {
		err := locker.Do(ctx, "order:42", func(context.Context) error { return nil })
		fmt.Println("re-entry:", err)
		return locker.Do(ctx, "order:42", func(context.Context) error { return nil }, lock.WithoutReentry())
	})
	fmt.Println("without:", errors.Is(err, lock.ErrBusy))
	// Output:
	// re-entry: <nil>
	// without: true
}

// Inspect shows who holds a key, and who is queued for it.
func ExampleLocker_Inspect() {
	ctx, cancel := context.WithCancel(context.Background())
	locker := lock.New(memstore.New(), lock.WithMode(lock.Fair))
	defer func() { _ = locker.Close(ctx) }()

	lease, _ := locker.Acquire(ctx, "job")
	left := make(chan error)
	for i := range 2 {
		go func() {
			_, err := locker.Acquire(ctx, "job")
			left <- err
		}()
		awaitQueue(ctx, locker, "job", i+1)
	}
	state, _ := locker.Inspect(ctx, "job")
	fmt.Println(state.Held, state.Mode, state.Owners[0].Owner == lease.Owner(), len(state.Waiters))

	cancel() // both give up, and leave the queue
	fmt.Println(<-left)
	fmt.Println(<-left)
	_ = lease.Release(ctx)
	// Output:
	// true fair true 2
	// lock: acquire "job": context canceled
	// lock: acquire "job": context canceled
}

// ForceRelease takes a key from a holder that does not give it back. The
// holder's lease ends; what it writes all the same has the smaller fence.
func ExampleLocker_ForceRelease() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer func() { _ = locker.Close(ctx) }()

	stuck, _ := locker.Acquire(ctx, "order:42")
	freed, err := locker.ForceRelease(ctx, "order:42")
	fmt.Println(freed, err)
	fmt.Println(errors.Is(context.Cause(stuck.Context()), lock.ErrLost))

	next, _ := locker.TryAcquire(ctx, "order:42")
	fmt.Println(next.Fence() > stuck.Fence())
	fmt.Println(errors.Is(stuck.Release(ctx), lock.ErrLost))
	_ = next.Release(ctx)
	// Output:
	// true <nil>
	// true
	// true
	// true
}

// onTick is what each instance does when its clock strikes, once a minute.
func onTick(ctx context.Context, locker *lock.Locker, report func(context.Context) error) error {
	err := locker.Do(ctx, "job:report", report, lock.WithWait(0), lock.WithMinHold(50*time.Second))
	if errors.Is(err, lock.ErrBusy) {
		return nil // another instance runs it, or has run it
	}
	return err
}

// A job that takes no time runs once per tick, although the clocks of the instances
// strike one after the other.
func ExampleWithMinHold() {
	ctx, store := context.Background(), memstore.New()
	report := func(context.Context) error {
		fmt.Println("report")
		return nil
	}
	for range 3 { // instances
		locker := lock.New(store)
		if err := onTick(ctx, locker, report); err != nil {
			fmt.Println(err)
		}
		_ = locker.Close(ctx) // frees the key no earlier
	}
	// Output: report
}

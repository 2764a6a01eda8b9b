package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// The variables that make this test binary another process, each with the
// address of the Redis to use.
const (
	writerEnv  = "REDLATCH_TEST_WRITER"
	serviceEnv = "REDLATCH_TEST_SERVICE"
)

// childLocker is what a child process locks with.
func childLocker(t *testing.T, env string, watchdog time.Duration) *lock.Locker {
	t.Helper()
	addr := os.Getenv(env)
	if addr == "" {
		t.Skip("only runs as a child of another test")
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return lock.New(redisstore.New(rdb), lock.WithWatchdog(watchdog))
}

func nextLine() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') }

// TestWriterProcess looks whether it holds the lock, as careful code does, and
// writes after that: whatever happens in between.
func TestWriterProcess(t *testing.T) {
	l := childLocker(t, writerEnv, pausedWatchdog)
	defer func() { _ = l.Close(context.Background()) }()
	lease, err := l.Acquire(t.Context(), "resource")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("held", lock.AssertHeld(lease.Context(), "resource") == nil)
	nextLine()
	fmt.Println("write", lease.Fence())
}

// No check of a lease helps against a pause behind it: only the fence does. The
// resource that doesn't look at fences is the control.
func TestAPauseBetweenTheCheckAndTheWriteIsCaughtByTheFence(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	child := startChild(t, "TestWriterProcess", writerEnv+"="+server.Addr())
	if got := child.word("held"); got != "true" {
		t.Fatal("the child does not hold the lock")
	}
	child.signal(syscall.SIGSTOP)

	lease := acquire(t, newLocker(t, server.Client(t)), "resource")
	var fenced register
	fenced.write(lease.Fence(), "new holder")

	child.say("write")
	child.signal(syscall.SIGCONT)
	late := child.number("write")
	if fenced.write(late, "paused holder") || fenced.writer != "new holder" {
		t.Errorf("fence %d was accepted after %d", late, lease.Fence())
	}
	var unfenced register // that believes everybody, as a control
	for _, writer := range []string{"new holder", "paused holder"} {
		unfenced.write(lease.Fence(), writer)
	}
	if unfenced.writer == fenced.writer {
		t.Error("the control has lost nothing")
	}
	child.wait()
	release(t, lease)
}

// TestServiceProcess works under a lock until its standard input says a line,
// and stops as a service does: on SIGTERM it admits nobody, waits for the work,
// and closes.
func TestServiceProcess(t *testing.T) {
	l := childLocker(t, serviceEnv, 6*time.Second)
	terminated, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	lease, err := l.Acquire(t.Context(), "in use")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Acquire(t.Context(), "forgotten")
	if err != nil {
		t.Fatal(err)
	}
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		nextLine()
		fmt.Println("trusted", lease.Context().Err() == nil)
		_ = lease.Release(context.Background())
	}()
	fmt.Println("fence", lease.Fence())
	<-terminated.Done()
	limited, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- l.Drain(limited) }()
	eventually(t, func() error {
		_, err := l.TryAcquire(t.Context(), "more work")
		if !errors.Is(err, lock.ErrClosed) {
			return fmt.Errorf("got %w, want ErrClosed", err)
		}
		return nil
	})
	fmt.Println("draining", true)
	<-worked
	_ = other // its owner never comes back to it: Close gives it back
	cancel()
	if err := <-drained; !errors.Is(err, context.Canceled) { // one lease was left
		t.Errorf("Drain: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A service that is stopped keeps its locks for as long as it works under
// them, however long after the signal, and leaves none behind.
func TestAStoppingServiceKeepsWhatItUsesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	plain := server.Admin(t)
	child := startChild(t, "TestServiceProcess", serviceEnv+"="+server.Addr())
	child.number("fence")
	child.signal(syscall.SIGTERM)
	child.word("draining")
	l := newLocker(t, server.Client(t))
	left := plain.PTTL(t.Context(), "in use").Val()
	eventually(t, func() error { // it is renewed, too
		was := left
		if left = plain.PTTL(t.Context(), "in use").Val(); left <= was {
			return errors.New("not renewed")
		}
		return nil
	})
	if _, err := l.TryAcquire(t.Context(), "in use"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("while it is in use: %v, want ErrBusy", err)
	}
	child.say("done")
	if got := child.word("trusted"); got != "true" {
		t.Error("its lease ended while it worked")
	}
	child.wait()
	if n := plain.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("it left keys behind: %v", plain.Keys(t.Context(), "*").Val())
	}
}

// Without Redis a stop takes as long as it was given, and no longer.
func TestAStopWithoutRedisEndsInTime(t *testing.T) {
	for name, fault := range map[string]func(*redistest.Server){
		"killed": (*redistest.Server).Kill,
		"hung":   (*redistest.Server).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t)
			l := lock.New(redisstore.New(server.Client(t)))
			lease := acquire(t, l, "k")
			waiting := make(chan error, 1)
			go func() {
				_, err := l.Acquire(t.Context(), "k")
				waiting <- err
			}()
			fault(server)
			const limit = 500 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			err := l.Close(ctx)
			if took := time.Since(began); took > limit+slack(began) {
				t.Errorf("it took %v, and had %v", took, limit)
			}
			if err == nil {
				t.Error("it says that everything was released")
			}
			if got := <-waiting; !errors.Is(got, lock.ErrClosed) {
				t.Errorf("the waiter got %v, want ErrClosed", got)
			}
			if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrClosed) {
				t.Errorf("the lease ended with %v, want ErrClosed", cause)
			}
			server.Cont()
			_ = l.Close(t.Context()) // waits for the calls that hung
		})
	}
}

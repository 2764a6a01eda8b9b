package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// A lease that was concluded is trusted and renewed until it is released, and shares its
// hold with nobody.
func TestAConcludedLeaseStaysTrustedAndIsNotReentered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpaced()
		l := newLocker(t, store)
		lease := acquire(t, l, t.Context(), "k")
		for range 2 {
			wantErr(t, lease.Conclude(), nil)
			wantErr(t, lock.AssertHeld(lease.Context(), "k"), nil)
		}
		_, err := l.TryAcquire(lease.Context(), "k")
		wantErr(t, err, lock.ErrOwnHold)
		time.Sleep(2 * lock.DefaultWatchdog)
		wantErr(t, lock.AssertHeld(lease.Context(), "k"), nil)
		release(t, lease)
		if n := holds(t, store, "k"); n != 0 {
			t.Errorf("%d holds are left", n)
		}
	})
}

func TestConcludeIsRefusedByItsLease(t *testing.T) {
	brief := lock.WithLease(time.Second)
	for name, tt := range map[string]struct {
		opts  []lock.Option
		under func(t *testing.T, l *lock.Locker, lease *lock.Lease)
		want  error
	}{
		"released": {nil, func(t *testing.T, _ *lock.Locker, lease *lock.Lease) { t.Helper(); release(t, lease) }, lock.ErrReleased},
		"lost":     {[]lock.Option{brief}, func(*testing.T, *lock.Locker, *lock.Lease) { time.Sleep(time.Second) }, lock.ErrLost},
		"taken": {nil, func(t *testing.T, l *lock.Locker, _ *lock.Lease) {
			t.Helper()
			_, err := l.ForceRelease(t.Context(), "k")
			wantErr(t, err, nil)
		}, lock.ErrForced},
		"closed":             {nil, func(t *testing.T, l *lock.Locker, _ *lock.Lease) { t.Helper(); wantErr(t, l.Close(t.Context()), nil) }, lock.ErrClosed},
		"of a reader":        {[]lock.Option{lock.WithMode(lock.Read)}, nil, lock.ErrUnsupported},
		"of permits":         {[]lock.Option{lock.WithPermits(1, 1)}, nil, lock.ErrUnsupported},
		"in a minimum hold":  {[]lock.Option{lock.WithMinHold(time.Second)}, nil, lock.ErrUnsupported},
		"behind the minimum": {[]lock.Option{lock.WithMinHold(time.Second)}, func(*testing.T, *lock.Locker, *lock.Lease) { time.Sleep(time.Second) }, nil},
		"of a writer":        {[]lock.Option{lock.WithMode(lock.Write)}, nil, nil},
		"fair":               {[]lock.Option{lock.WithMode(lock.Fair)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLocker(t, newSpaced())
				lease := acquire(t, l, t.Context(), "k", tt.opts...)
				if tt.under != nil {
					tt.under(t, l, lease)
				}
				wantErr(t, lease.Conclude(), tt.want)
				_ = lease.Release(t.Context()) // where it has not ended
			})
		})
	}
	wantErr(t, (*lock.Lease)(nil).Conclude(), lock.ErrNotHeld)
}

// Of leases that share a hold, none may release it for the others.
func TestASharedHoldIsConcludedByItsLastLeaseOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newSpaced())
		outer := acquire(t, l, t.Context(), "k")
		inner := acquire(t, l, outer.Context(), "k")
		wantErr(t, outer.Conclude(), lock.ErrUnsupported)
		wantErr(t, inner.Conclude(), lock.ErrUnsupported)
		release(t, outer)
		wantErr(t, outer.Conclude(), lock.ErrReleased)
		wantErr(t, inner.Conclude(), nil)
		release(t, inner)
	})
}

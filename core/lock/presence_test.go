package lock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// A locker looks at a bounded number of keys that are said to be free. A key that is free
// doesn't count.
func TestAnnouncementsThatAreTrueAreNoBurden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 300
		store, me := memstore.New(), lock.WithIdentity(lock.Identity{Service: "shop"})
		holder, operator := newLocker(t, store, me), newLocker(t, store, me)
		var leases []*lock.Lease
		for i := range keys {
			leases = append(leases, acquire(t, holder, t.Context(), fmt.Sprint("k:", i)))
		}
		time.Sleep(time.Second) // it listens by then
		for i := range keys {
			if freed, err := operator.ForceRelease(t.Context(), fmt.Sprint("k:", i)); err != nil || !freed {
				t.Fatalf("freed %v, %v", freed, err)
			}
		}
		time.Sleep(time.Second)
		ended := 0
		for _, lease := range leases {
			select {
			case <-lease.Context().Done():
				ended++
			default:
			}
		}
		if ended != keys {
			t.Errorf("%d of %d leases have ended", ended, keys)
		}
	})
}

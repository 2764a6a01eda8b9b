package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

func engineAcquiresAll(_ *testing.T, b *bench) {
	here, there := b.locker(), b.locker()
	request := func(l *lock.Locker, name string) lock.Request { return l.Request(b.key(name)) }
	for _, names := range [][]string{{"{cart}:1", "{cart}:2", "{cart}:3"}, {"p", "q", "r"}} { // in a cluster: one slot, and several
		all, err := lock.AcquireAll(b.Context(), request(here, names[0]), request(here, names[1]), request(here, names[2]))
		if err != nil {
			b.Fatal(err)
		}
		_, err = lock.AcquireAll(b.Context(), request(there, "free"), there.Request(b.key(names[2]), lock.WithWait(20*time.Millisecond)))
		if !errors.Is(err, lock.ErrBusy) {
			b.Errorf("with one key taken: got %v, want ErrBusy", err)
		}
		b.isFree("free")
		if err := all.Release(b.Context()); err != nil {
			b.Error(err)
		}
		for _, name := range names {
			if b.state(name).Held {
				b.Errorf("%s is still held", name)
			}
		}
	}
	counters := make([]int, 3) // unsafe on purpose
	together(12, func(i int) {
		l := []*lock.Locker{here, there}[i%2]
		for round := range 5 {
			first, second := (i+round)%3, (i+round+1)%3
			all, err := lock.AcquireAll(b.Context(),
				request(l, fmt.Sprint("n", first)), request(l, fmt.Sprint("n", second)))
			if err != nil {
				b.Errorf("AcquireAll: %v", err)
				return
			}
			counters[first]++
			counters[second]++
			if err := all.Release(b.Context()); err != nil {
				b.Errorf("Release: %v", err)
			}
		}
	})
	if sum := counters[0] + counters[1] + counters[2]; sum != 12*5*2 {
		b.Errorf("counted %d, want %d", sum, 12*5*2)
	}
}

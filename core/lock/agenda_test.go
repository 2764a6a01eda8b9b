//go:build !machine

package lock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// task is what the agenda of a test has.
type task struct{ place int32 }

func (x *task) row(column) *int32 { return &x.place }

// Whatever is set, moved, replaced and removed, everything comes when it is due, and
// nothing else does.
func TestAnAgendaKeepsItsAppointments(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random, began := rand.New(rand.NewPCG(seed, 0)), time.Now()
			now := func() time.Duration { return time.Since(began) }
			want := make(map[*task]time.Duration)
			var mu sync.Mutex
			var g agenda[*task]
			g = agenda[*task]{now: now, due: func() {
				mu.Lock()
				defer mu.Unlock()
				for x := g.next(now()); x != nil; x = g.next(now()) {
					if at, planned := want[x]; !planned || at != now() {
						t.Errorf("seed %d: at %v comes what was planned for %v (%t)", seed, now(), at, planned)
					}
					delete(want, x)
					g.remove(x)
				}
				g.served()
			}}
			tasks := make([]task, 20)
			pick := func() *task { return &tasks[random.IntN(len(tasks))] }
			for range 200 {
				x, y, at := pick(), pick(), now()+time.Duration(random.IntN(1000))
				mu.Lock()
				switch random.IntN(4) {
				case 0, 1:
					g.set(x, at)
					want[x] = at
				case 2:
					g.remove(x)
					delete(want, x)
				case 3:
					if before, planned := want[x]; planned && !g.has(y) {
						g.replace(x, y)
						delete(want, x)
						want[y] = before
					}
				}
				for i := range tasks {
					x := &tasks[i]
					if _, planned := want[x]; planned != g.has(x) {
						t.Errorf("seed %d: planned %t, and it has a row: %t", seed, planned, g.has(x))
					}
				}
				mu.Unlock()
				time.Sleep(time.Duration(random.IntN(50)))
				synctest.Wait()
			}
			time.Sleep(1000)
			synctest.Wait()
			if len(want) > 0 || len(g.rows) > 0 {
				t.Errorf("seed %d: %d were forgotten, %d rows are left", seed, len(want), len(g.rows))
			}
		})
	}
}

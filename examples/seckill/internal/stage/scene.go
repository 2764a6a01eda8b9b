package stage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// scene is what a button led to, moment by moment.
type scene struct {
	Name  string   `json:"name"`
	Steps []moment `json:"steps"`
	began time.Time
}

// moment is a step of a scene in a lane.
type moment struct {
	Ms       int64  `json:"ms"` // since the scene began
	Lane     string `json:"lane"`
	Instance int    `json:"instance"`
	// Kind names a sentence of the page.
	Kind  string `json:"kind"`
	Fence string `json:"fence,omitempty"`
}

// play runs a scene in all lanes, in a new sale, for a user that no other scene knows.
func (s *Stage) play(name string, do func(ctx context.Context, l *lane, user string)) error {
	return s.begin(name, func(ctx context.Context) {
		s.mu.Lock()
		s.scene = &scene{Name: name, began: time.Now()}
		user := fmt.Sprintf("%s-%d", name, time.Now().UnixMilli()%1_000_000)
		s.mu.Unlock()
		s.say(name)
		s.everywhere(func(l *lane) {
			l.reopen(ctx)
			do(ctx, l, user)
		})
	})
}

// step adds a moment to the scene.
func (l *lane) step(at *instance, kind string, leases ...*lock.Lease) {
	s := l.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scene == nil { // it is over
		return
	}
	m := moment{time.Since(s.scene.began).Milliseconds(), l.id, at.n, kind, ""}
	for _, lease := range leases {
		m.Fence = strconv.FormatUint(lease.Fence(), 10)
	}
	s.scene.Steps = append(s.scene.Steps, m)
}

// act is an order in a scene, under locks that run out soon.
func (l *lane) act(ctx context.Context, at *instance, user string, think func()) (code string) {
	return l.order(ctx, at, user, think, lock.WithWatchdog(sceneWatchdog))
}

// lease is that of a user's lock, if the lane has one and somebody has it.
func (l *lane) lease(user string) []*lock.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[userLock(user)]; ok {
		return []*lock.Lease{h.lease}
	}
	return nil
}

// DoubleClick clicks twice as one user, at two instances.
func (s *Stage) DoubleClick() error {
	return s.play("double", func(ctx context.Context, l *lane, user string) {
		first, second := l.at(0), l.at(1)
		looked, done := newSignal(), newSignal()
		var clicks sync.WaitGroup
		clicks.Go(func() {
			defer looked.give()
			code := l.act(ctx, first, user, func() {
				l.step(first, "looked", l.lease(user)...)
				looked.give()
				<-done.given
			})
			l.step(first, code)
		})
		<-looked.given
		code := l.act(ctx, second, user, func() { l.step(second, "looked", l.lease(user)...) })
		l.step(second, code)
		done.give()
		clicks.Wait()
	})
}

// Pause stops an instance in the middle of an order, for longer than its lease. Meanwhile
// the user clicks again, at another instance. Then the first one wakes up, and writes.
func (s *Stage) Pause() error {
	return s.play("pause", func(ctx context.Context, l *lane, user string) {
		first, second := l.at(0), l.at(1)
		paused, served := newSignal(), newSignal()
		var clicks sync.WaitGroup
		clicks.Go(func() {
			defer paused.give()
			code := l.act(ctx, first, user, func() { //nolint:contextcheck // a lease has its own
				leases := l.lease(user)
				l.step(first, "looked", leases...)
				first.link.cut.Store(true)
				l.step(first, "paused")
				for _, lease := range leases {
					context.AfterFunc(lease.Context(), func() { l.step(first, "trust ended", lease) })
				}
				paused.give()
				<-served.given
				first.link.cut.Store(false)
				l.step(first, "woke")
			})
			l.late(first, code)
		})
		<-paused.given
		l.served(ctx, second, user)
		served.give()
		clicks.Wait()
	})
}

// late says what became of the write that came late.
func (l *lane) late(at *instance, code string) {
	if code == placed {
		l.step(at, "late write taken")
		l.stage.say("late write taken", l.id)
		return
	}
	l.step(at, code)
	if code == lateOne {
		l.stage.say("late write refused", l.id)
	}
}

// Kill ends an instance in the middle of an order. The user clicks on, at another one,
// until there is an order.
func (s *Stage) Kill(n int) error {
	if n < 1 || n > instances {
		return ErrUnknown
	}
	s.mu.Lock()
	up := slices.Index(s.up[:], false) < 0
	s.mu.Unlock()
	if !up {
		return ErrBusy // one is dead already
	}
	err := s.play("kill", func(ctx context.Context, l *lane, user string) {
		victim := l.at(n - 1)
		l.act(ctx, victim, user, func() { l.step(victim, "looked", l.lease(user)...); victim.kill() })
		victim.kill() // also if it had nothing to do
		l.step(victim, "killed")
		l.served(ctx, l.at(n), user)
	})
	if err == nil {
		s.mu.Lock()
		s.up[n-1] = false
		s.mu.Unlock()
	}
	return err
}

// kill ends what an instance does. Its keys stay.
func (i *instance) kill() {
	i.alive.Store(false)
	i.link.cut.Store(true)
}

// signal is given once.
type signal struct {
	given chan struct{}
	give  func()
}

func newSignal() signal {
	given := make(chan struct{})
	return signal{given, sync.OnceFunc(func() { close(given) })}
}

// served clicks until the user is served.
func (l *lane) served(ctx context.Context, at *instance, user string) {
	refused := false
	deadline := time.Now().Add(patience)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		var leases []*lock.Lease
		code := l.act(ctx, at, user, func() {
			if leases = l.lease(user); len(leases) > 0 {
				l.step(at, "granted", leases...)
			}
		})
		if code == "LOCK_CONTENDED" {
			if !refused {
				l.step(at, code)
			}
			refused = true
			rest(ctx, 50*time.Millisecond)
			continue
		}
		l.step(at, code, leases...)
		return
	}
}

// sceneStock is how much is on sale in a scene.
const sceneStock = 10

// reopen opens a new sale, so that what a scene shows is its own.
func (l *lane) reopen(ctx context.Context) {
	l.tally.reset()
	if err := l.book.open(ctx, sceneStock); err != nil {
		l.stage.say("failed", l.id, "open")
	}
}

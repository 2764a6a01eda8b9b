package lock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// registrationTTL is how long a registration outlives its process.
	registrationTTL   = 30 * time.Second
	registrationEvery = registrationTTL / 3
)

// presence makes a locker known to operators, and hears of forced releases. It has one
// goroutine, from the first acquisition until the locker ends.
type presence struct {
	*Locker
	registry Registry
	identity Identity
	since    time.Time
	began    atomic.Bool
	mute     atomic.Bool // the store refuses to say who is registered
	heard    hints
}

// newPresence returns nil for a locker without an identity, and for a store without a
// registry.
func newPresence(l *Locker) *presence {
	registry, ok := portOf[Registry](l.store)
	if !ok || l.defaults.identity == nil {
		return nil
	}
	p := &presence{Locker: l, registry: registry, identity: *l.defaults.identity, since: l.epoch}
	p.heard.more, p.heard.budget = make(chan struct{}, 1), hintBudget
	return p
}

// begin starts the presence, if there is one, and the locker isn't closed.
func (p *presence) begin() {
	if p == nil || p.began.Load() || !p.began.CompareAndSwap(false, true) || p.Locker.begin() != nil {
		return
	}
	go p.run()
}

func (p *presence) run() {
	defer p.running.Done()
	again := time.NewTimer(0)
	defer again.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var stop func()
	listens, registers := true, true
	for every := time.Second; ; every = registrationEvery { // the first may come before its hold
		if stop == nil && listens {
			stop, listens = p.listen()
		}
		if registers {
			registers = p.register()
		}
		again.Reset(every)
	hearing:
		for {
			select {
			case <-p.heard.more:
				pause.Reset(p.heard.wait(p.now()))
			case <-pause.C:
				p.verify(p.heard.take())
			case <-again.C:
				break hearing
			case <-p.over():
				p.leave(stop, registers)
				return
			}
		}
	}
}

// listen subscribes to forced releases. again says whether to try later.
func (p *presence) listen() (stop func(), again bool) {
	stop, err := bounded(p.base, p.Locker, p.defaults.callTimeout, func(ctx context.Context) (func(), error) {
		return p.registry.Announced(ctx, func(locker, name string) {
			if locker == "" || locker == p.client {
				p.heard.add(name)
			}
		})
	}, func(stop func(), err error) {
		if err == nil {
			stop()
		}
	})
	if err != nil {
		return nil, outcomeOf(err) != OutcomeRefused
	}
	return stop, true
}

// register says in the store who the locker is, and what it holds. It returns false when
// trying again is of no use.
func (p *presence) register() bool {
	r := Registration{Locker: p.client, Identity: p.identity, Since: p.since, Holds: p.oldest()}
	_, err := bounded(p.base, p.Locker, p.defaults.callTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.registry.Register(ctx, r, registrationTTL)
	}, nil)
	return err == nil || outcomeOf(err) != OutcomeRefused
}

func (p *presence) leave(stop func(), registered bool) {
	if stop != nil {
		stop()
	}
	if registered {
		ctx := context.WithoutCancel(p.base) // which Close may end before that
		_, _ = bounded(ctx, p.Locker, p.defaults.callTimeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.registry.Unregister(ctx, p.client)
		}, nil)
	}
}

// identify completes states by who their lockers are, as far as the store says it to a
// locker with an identity.
func (l *Locker) identify(ctx context.Context, states ...*State) {
	p := l.presence
	if p == nil || p.mute.Load() {
		return
	}
	var lockers []string
	for _, s := range states {
		for _, o := range s.Owners {
			lockers = append(lockers, LockerOf(o.Owner))
		}
		for _, w := range s.Waiters {
			lockers = append(lockers, LockerOf(w))
		}
	}
	slices.Sort(lockers)
	lockers = slices.DeleteFunc(slices.Compact(lockers), func(id string) bool { return !ofThisPackage(id) })
	known := map[string]Registration{}
	if len(lockers) > 0 {
		var err error
		if known, err = p.registry.Registered(ctx, lockers); err != nil {
			p.mute.Store(outcomeOf(err) == OutcomeRefused)
			return
		}
	}
	for _, s := range states {
		s.name(known)
	}
}

// name completes the state by what lockers say of themselves.
func (s *State) name(known map[string]Registration) {
	s.Lockers = make(map[string]Registration)
	for i := range s.Owners {
		o := &s.Owners[i]
		r, ok := known[LockerOf(o.Owner)]
		if !ok {
			continue
		}
		s.Lockers[r.Locker] = r
		for _, h := range r.Holds {
			if h.Owner == o.Owner && o.Fence == 0 {
				o.Fence, o.Since = h.Fence, h.Since
			}
		}
	}
	for _, w := range s.Waiters {
		if r, ok := known[LockerOf(w)]; ok {
			s.Lockers[r.Locker] = r
		}
	}
}

const (
	// hintBudget is how many keys a locker looks at in vain, and hintRate how many more in a
	// second: what forged messages cost.
	hintBudget = 100
	hintRate   = 20
)

// hints are the announcements that wait for a look.
type hints struct {
	more chan struct{}

	mu     sync.Mutex
	names  []string
	own    map[string]int // names that this locker is releasing by force itself
	budget float64        // names that may be looked at, as of counted
	at     time.Duration  // when it was counted
}

// add notes a name. What finds no room, the next renewal finds out.
func (h *hints) add(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.names) == maxRound || h.own[name] > 0 || slices.Contains(h.names, name) {
		return
	}
	h.names = append(h.names, name)
	h.signal()
}

// signal has the names looked at; mu is held.
func (h *hints) signal() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// wait is how long to wait before the next look.
func (h *hints) wait(now time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget = min(hintBudget, h.budget+hintRate*(now-h.at).Seconds())
	h.at = now
	return time.Duration(max(0, 1-h.budget) / hintRate * float64(time.Second))
}

// take returns the names to look at now.
func (h *hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.names), max(1, int(h.budget)))
	names := h.names[:n]
	if h.names = h.names[n:]; len(h.names) > 0 {
		h.signal()
	}
	h.budget -= float64(n)
	return names
}

// forcing keeps the locker from hearing what it is doing itself, until done is called: its
// own holds end with [ErrForced].
func (p *presence) forcing(key string) (done func()) {
	if p == nil {
		return func() {}
	}
	name := p.registry.NameOf(key)
	count := func(n int) {
		p.heard.mu.Lock()
		defer p.heard.mu.Unlock()
		if p.heard.own == nil {
			p.heard.own = make(map[string]int)
		}
		if p.heard.own[name] += n; p.heard.own[name] == 0 {
			delete(p.heard.own, name)
		}
	}
	count(1)
	return func() { count(-1) }
}

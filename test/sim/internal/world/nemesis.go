package world

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// nemesis breaks things, one after the other.
type nemesis struct {
	world *World
	rng   *rand.Rand
}

func (n *nemesis) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.rng.Int64N(int64(most-least)))
}

func (n *nemesis) victim() *process {
	all := n.world.processes()
	return all[n.rng.IntN(len(all))]
}

// run breaks things until the load ends.
func (n *nemesis) run() {
	faults := n.faults()
	if len(faults) == 0 {
		return
	}
	for {
		pause(n.world.ctx, n.between(200*time.Millisecond, 4*time.Second))
		if n.world.ctx.Err() != nil {
			return
		}
		f := faults[n.rng.IntN(len(faults))]
		n.world.journal.count("fault: " + string(f))
		n.strike(f)
	}
}

// faults are those of the world that come one by one.
func (n *nemesis) faults() (all []Feature) {
	for _, f := range append(slices.Clone(Faults), Mute, Refuse) {
		if f != Slow && n.world.Features[f] {
			all = append(all, f)
		}
	}
	return all
}

func (n *nemesis) strike(f Feature) {
	w, p := n.world, n.victim()
	d := n.between(100*time.Millisecond, 4*time.Second)
	w.journal.tell("           fault %s, p%d, %v", f, p.number, d.Round(time.Millisecond))
	switch f {
	case Cut, Deaf:
		n.cut(p, f == Deaf)
	case Mute:
		n.mute(p)
	case CutBefore:
		p.disturb(d)
		p.cutBefore.Store(1 + n.rng.Int64N(5))
	case CutAfter:
		p.disturb(d)
		p.cutAfter.Store(1 + n.rng.Int64N(5))
	case Freeze:
		d *= 2
		p.frozen.Store(int64(time.Since(w.journal.start) + d))
		p.disturb(d)
	case Stall:
		w.server.stall(d)
		w.disturb(d)
	case Refuse:
		w.server.refuse(d)
		w.disturb(d)
	case Restart, Lose, Failover:
		n.restart(f, d)
	case Clock:
		n.step()
	case Flush:
		w.server.mu.Lock()
		w.server.scripts.Flush()
		w.server.mu.Unlock()
	case Reopen:
		n.reopen(p)
	case Kill:
		n.kill(p)
	case Forge:
		n.forge()
	}
}

// cut breaks the connections of a process, or the subscribed ones.
func (n *nemesis) cut(p *process, deaf bool) {
	p.disturb(0)
	for _, c := range n.world.server.connections(func(other *process, subscribed bool) bool {
		return other == p && (!deaf || subscribed)
	}) {
		c.Cut()
		p.deafened.Store(true)
	}
}

// mute silences the connections of a process. What it calls on them has no answer; what it
// calls after that must have one.
func (n *nemesis) mute(p *process) {
	p.muted.Store(int64(time.Since(n.world.journal.start) + n.world.callTimeout + n.world.readTimeout))
	for _, c := range n.world.server.connections(func(other *process, _ bool) bool { return other == p }) {
		c.Mute()
	}
}

func (n *nemesis) restart(f Feature, d time.Duration) {
	w := n.world
	w.disturb(d)
	switch f {
	case Lose:
		w.server.restart()
		w.server.mu.Lock()
		w.server.keys.Clear()
		w.server.mu.Unlock()
		w.forget(false)
	case Failover:
		w.server.failover()
		w.forget(false)
	default:
		w.server.restart()
	}
	time.AfterFunc(d, func() { w.server.down.Store(false) })
}

// step moves the server's clock. What it has promised before may end early.
func (n *nemesis) step() {
	w := n.world
	d := n.between(-20*time.Second, 20*time.Second)
	w.server.mu.Lock()
	w.server.offset += d
	w.server.mu.Unlock()
	w.forget(d < 0)
	w.disturb(max(-d, 0))
}

// reopen closes the locker of a process while its callers work, and makes
// another one. In half of the worlds they may finish first.
func (n *nemesis) reopen(p *process) {
	locker, id := p.current()
	p.open()
	drains, later := n.world.Seed/8%2 == 0, n.between(time.Millisecond, time.Second)
	n.world.background.Go(func() {
		if drains {
			p.drainLocker(locker, id)
			pause(context.Background(), later)
		}
		p.closeLocker(locker, id)
	})
}

func (n *nemesis) kill(p *process) {
	n.world.killed.Store(true)
	n.world.disturb(0)
	n.world.replace(p)
}

// forge publishes on a channel that somebody listens to.
func (n *nemesis) forge() {
	s := n.world.server
	s.mu.Lock()
	defer s.mu.Unlock()
	messages := []string{"0", "1", "", "9007199254740991", "x"}
	for channel := range s.channels {
		s.keys.SetTime(s.clock())
		s.publish(channel, messages[n.rng.IntN(len(messages))])
		return
	}
}

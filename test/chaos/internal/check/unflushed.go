package check

import "github.com/redlatch/redlatch/test/chaos/internal/history"

// A release in PostgreSQL doesn't wait for the log to be written, so a kill of the server
// may forget it: the hold is there again until its TTL ends. Grants do wait, and what is
// written before a grant is written with it. So only the releases are in doubt that no
// grant followed, and refusals are all that they explain.

// unflushed makes ghosts of the holds that a kill may have brought back.
func (b *builder) unflushed() {
	if b.Topology != "postgresql" {
		return
	}
	for _, f := range b.faults {
		if f.Kind != KillServer {
			continue
		}
		flushed := b.flushed(f.From)
		for _, freed := range b.freed {
			for _, e := range freed {
				if e.Return >= flushed && e.Call <= f.To {
					b.forgotten(&e, span{f.From, f.To})
				}
			}
		}
	}
}

// flushed is when the last grant was called for that was answered by then.
func (b *builder) flushed(by int64) (call int64) {
	for _, promises := range b.promises {
		for _, p := range promises {
			if p.Kind == history.Grant && p.Return <= by {
				call = max(call, p.Call)
			}
		}
	}
	return call
}

// forgotten makes a ghost of what the release e has removed. That is also a place in a
// queue.
func (b *builder) forgotten(e *history.Event, kill span) {
	l, until := b.Timeline.life(e), kill.to
	if h := b.holds[e.Owner]; h != nil {
		until = max(until, h.expHi)
	}
	for _, p := range b.promises[e.Owner] {
		until = max(until, p.Return+l.atMost(p.TTL))
	}
	if l.mode == "fair" {
		l.dead = append(l.dead, span{e.Call, kill.to})
	}
	l.ghosts = append(l.ghosts, ghost{span{kill.from, until + epsilon}, kill.to})
}

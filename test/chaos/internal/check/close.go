package check

import (
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// silence is for how long what broke before a Close may still be felt.
const silence = time.Second

// hurried is how late processes may be for a locker to be closed all the same: half of what
// its calls wait for, which is a lease.
const hurried = 150 * time.Millisecond

// closed: a locker leaves nothing to expire if the servers answer.
func (v *liveness) closed() {
	for _, e := range v.closes {
		s := span{e.Call - int64(silence), e.Return}
		if e.Outcome != history.OK && v.calm(e.Worker, s) && v.lateness(e.Worker, s) < hurried {
			v.fail("unavailable", "", e.Return, "the locker of worker %d was closed in %v, with %q, and nothing was broken",
				e.Worker, time.Duration(e.Return-e.Call), e.Note)
		}
	}
}

// remains: what a locker had when Close returned no error is not in the store,
// unless a server forgot the release.
func (v *liveness) remains() {
	for _, e := range v.left {
		if !anyOverlaps(v.amnesia, widened(span{e.Call - int64(silence), e.Return})) {
			v.fail("left", e.Key, e.Call, "Close of worker %d returned no error, and %s still has the key", e.Worker, e.Owner)
		}
	}
}

// deaf is how long after the last caller of a key its subscriptions may be there: the
// engine keeps them for a tenth of that.
const deaf = time.Second

// certain is for how long it may be there in all, if only the times count in which
// nothing broke and no process was late.
const certain = 4 * deaf

// subscribed: nobody listens for a key that nobody wants.
func (v *liveness) subscribed() {
	var felt []span
	for _, spans := range v.hurt {
		felt = append(felt, spans...)
	}
	felt = merged(felt)
	reported := make(map[string]bool)
	for _, e := range v.heard {
		l := v.lives[e.Key]
		if l == nil || reported[e.Key] {
			continue
		}
		calm := gaps(felt, span{l.wanted(), e.Call})
		if len(calm) == 0 || calm[len(calm)-1].to < e.Call {
			continue
		}
		if s := calm[len(calm)-1]; s.to-s.from > int64(v.allowedAll(l, s, deaf)) || v.rested(l, calm) > certain {
			reported[e.Key] = true
			v.fail("subscribed", e.Key, e.Call, "a server has subscribers of the key, and nobody has wanted it for %v",
				time.Duration(e.Call-l.wanted()))
		}
	}
}

// rested is for how long in those times each process ran that asked for the key. Servers
// that are late are no reason to listen for so long, and a machine on which they always
// are would hide all subscriptions.
func (v *liveness) rested(l *life, calm []span) (total time.Duration) {
	for _, s := range calm {
		var late int64
		for p := range l.asked {
			late = max(late, covered(v.late[p.worker], s))
		}
		total += time.Duration(s.to - s.from - late)
	}
	return total
}

// wanted is when the last acquisition of a key ended.
func (l *life) wanted() (last int64) {
	for _, all := range l.asked {
		for _, a := range all {
			last = max(last, a.to)
		}
	}
	for _, s := range l.dead {
		last = max(last, s.to)
	}
	return last
}

// allowedAll is the most that is allowed to one of the processes that asked for the key.
func (v *liveness) allowedAll(l *life, s span, d time.Duration) time.Duration {
	most := v.allowed(history.Nobody, s, d)
	for p := range l.asked {
		most = max(most, v.allowed(p.worker, s, d))
	}
	return most
}

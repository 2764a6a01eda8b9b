//go:build !machine

package lock

import (
	"context"
	"math/rand/v2"
	"time"
)

// maxRound is how many holds are renewed, or lost, in one round, so that the
// locker's mutex is held for a short time only.
const maxRound = 1000

// readRenewal is how often a read hold is renewed at least, a fixed one with what is left
// of it. A reader of Redisson renews by setting the TTL of the whole lock to its own
// watchdog (30 s by default), also downwards, and may end before the next renewal.
const readRenewal = 10 * time.Second

// renewEvery is the pause between the renewals of h, whose TTL was set last; 0: there are
// none. The TTL of an acquire may be shorter than the watchdog. mu is held.
func (h *hold) renewEvery(ttl time.Duration) time.Duration {
	every := min(h.watchdog, ttl) / 3
	switch {
	case h.storedMode() != Read:
		return every
	case every == 0 && ttl <= readRenewal:
		return 0 // it ends before
	case every == 0:
		return readRenewal
	}
	return min(every, readRenewal)
}

// renewLater schedules the next renewal of h, whose TTL was set by a call sent at that
// time, if it is renewed; mu is held. What is suspect is due already.
func (l *Locker) renewLater(h *hold, sent, ttl time.Duration) {
	if every := h.renewEvery(ttl); every > 0 && !h.suspect && (!h.atLimit() || h.storedMode() == Read) {
		l.renewals.set(h, sent+every)
	}
}

// unwatch goes on without the watchdog of a lease of h that was released; mu is held.
func (l *Locker) unwatch(h *hold, lease *Lease, now time.Duration) {
	if lease.watchdog < h.watchdog {
		return
	}
	h.watchdog = 0
	for other := h.leases; other != nil && h.watchdog < lease.watchdog; other = other.next {
		h.watchdog = max(h.watchdog, other.watchdog)
	}
	every := h.renewEvery(h.expiry - now)
	switch {
	case every == 0 && h.suspect && h.count > 0: // the renewal that is due is for the leases that are left
	case every == 0:
		l.renewals.remove(h)
	case l.renewals.has(h):
		l.renewals.set(h, min(l.renewals.at(h), now+every))
	}
}

// renewal is one round: what was sent when, and who has not been reported.
type renewal struct {
	*Locker
	holds   []*hold
	claims  []Claim
	sent    time.Duration
	limit   time.Duration
	pending []bool // guarded by mu
}

// renewDue renews the holds whose time has come. If there are more than one round,
// the timer fires again at once, and they are renewed along with these. A store that
// never blocks gets one round after the other: many at once would only keep mu from
// everybody else.
func (l *Locker) renewDue() {
	for l.renewRound() && l.traits.Immediate {
	}
}

// renewRound renews one round in one call. It returns false if nothing is due.
func (l *Locker) renewRound() bool {
	l.checkClock()
	r := l.beginRenewal()
	if r == nil {
		return false
	}
	defer l.running.Done()
	r.call()
	return true
}

// call renews the holds, and returns when each has been reported.
func (r *renewal) call() {
	_, err := bounded(r.base, r.Locker, r.limit, func(ctx context.Context) (struct{}, error) {
		r.store.Renew(ctx, r.claims, r.report)
		return struct{}{}, nil
	}, nil)
	if err == nil {
		err = errNoAnswer // for claims that the store forgot to report
	}
	for i := range r.claims {
		r.report(i, err)
	}
}

// add puts a hold into the round; mu is held.
func (r *renewal) add(h *hold, c Claim) {
	r.holds, r.claims, r.pending = append(r.holds, h), append(r.claims, c), append(r.pending, true)
	h.sent = max(h.sent, r.sent+c.TTL)
}

func (l *Locker) beginRenewal() *renewal {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &renewal{Locker: l, sent: l.now()}
	r.take()
	if len(r.holds) == 0 || !l.traits.Immediate {
		defer l.renewals.served()
	}
	if len(r.holds) == 0 {
		return nil
	}
	l.running.Add(1)
	return r
}

// take fills the round with what is due, and with what is due soon: fewer, larger calls.
// A hold travels with others that have about as much time for an answer, so that none
// ends the call of another too early, or is kept from further tries; mu is held.
func (r *renewal) take() {
	var later []row[*hold]
	by := r.sent
	for len(r.holds)+len(later) < maxRound {
		h := r.renewals.next(by)
		if h == nil {
			break
		}
		at, c := r.renewals.at(h), h.claim(r.sent)
		limit := min(r.defaults.callTimeout, c.TTL/6, h.lasts/6) // time for further tries
		if len(r.holds) == 0 {
			r.limit, by = limit, by+h.watchdog/30
		}
		r.renewals.remove(h)
		if limit < r.limit/2 || limit/2 > r.limit {
			later = append(later, row[*hold]{at, h})
			continue
		}
		r.add(h, c)
	}
	for _, row := range later {
		r.renewals.set(row.of, row.at)
	}
}

// report records the result of one claim. Only the first failure counts; a
// success that comes later than that is still good news.
func (r *renewal) report(i int, err error) {
	if err == nil {
		r.checkClock()
	}
	r.mu.Lock()
	h := r.holds[i].latest()
	// A renewal of a write hold that is a read hold since then says nothing.
	first, gone := r.pending[i], isDecision(err) && r.claims[i].Mode == h.storedMode()
	r.pending[i] = false
	switch {
	case h.state != holdAlive, err != nil && !first:
		r.mu.Unlock()
		return
	case err == nil:
		h.confirm(r.sent, r.claims[i].TTL)
		r.renewLater(h, r.sent, r.claims[i].TTL)
	case !gone && (h.renewEvery(h.lasts) > 0 || h.suspect): // else no lease asks for it any longer
		lasts := h.lasts
		if h.watchdog > 0 {
			lasts = min(lasts, h.watchdog)
		}
		if h.suspect {
			lasts = min(h.lasts, 6*r.defaults.callTimeout) // see checkClock
		}
		r.renewals.set(h, r.now()+retryRenewal(lasts))
	}
	r.mu.Unlock()
	if gone {
		defer r.lose(wrap(ErrTaken, err), h) // also when the hook panics
	}
	if hook := r.defaults.hooks.Renewed; hook != nil {
		hook(RenewEvent{Event: h.event(), Err: err})
	}
}

// retryRenewal is how soon a failed renewal is tried again: often enough that
// one success before the end of trust is likely, with jitter.
func retryRenewal(watchdog time.Duration) time.Duration {
	d := min(max(watchdog/30, minBackoff), time.Second)
	return d/2 + rand.N(d/2)
}

//go:build !machine

package lock

import (
	"errors"
	"slices"
	"time"
)

// usable returns ErrClosed when the locker is closed.
func (l *Locker) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

// over is closed when the locker ends, and nothing is held.
func (l *Locker) over() <-chan struct{} { return l.ending }

// oldest are the holds that a registration lists. Of more than [maxRound] it looks at some.
func (p *presence) oldest() []Held {
	p.mu.Lock()
	now, wall := p.now(), time.Now()
	rows := p.trusts.rows[:min(len(p.trusts.rows), maxRound)]
	held := make([]Held, len(rows))
	for i, row := range rows {
		held[i] = Held{Owner: row.of.owner, Fence: row.of.fence, Since: wall.Add(row.of.granted - now).Round(0)}
	}
	p.mu.Unlock()
	slices.SortFunc(held, func(a, b Held) int { return a.Since.Compare(b.Since) })
	return held[:min(len(held), MaxListed)]
}

// verify asks the store at once about the holds of some names. What it no longer has is
// lost; anything else goes on as before.
func (p *presence) verify(names []string) {
	if len(names) == 0 {
		return
	}
	r := p.named(names)
	if len(r.holds) == 0 {
		return
	}
	r.call()
	lost := make(map[string]struct{})
	p.mu.Lock()
	for _, h := range r.holds {
		if errors.Is(h.latest().ended, ErrTaken) {
			lost[h.key] = struct{}{}
		}
	}
	p.mu.Unlock()
	p.heard.found(len(lost))
}

// named is a renewal of the holds whose keys have these names.
func (p *presence) named(names []string) *renewal {
	wanted := make(map[string]struct{}, len(names))
	for _, name := range names {
		wanted[name] = struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &renewal{Locker: p.Locker, sent: p.now(), limit: p.defaults.callTimeout}
	for _, row := range p.trusts.rows {
		if _, named := wanted[p.registry.NameOf(row.of.key)]; named && len(r.holds) < maxRound {
			r.add(row.of, row.of.claim(r.sent))
		}
	}
	return r
}

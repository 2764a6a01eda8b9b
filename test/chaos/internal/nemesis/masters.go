package nemesis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// lookout is how often the roles of servers are read.
const lookout = 50 * time.Millisecond

// masters finds out from what servers say of themselves when they didn't agree on
// who is a master. Sentinels and clusters also fail over by themselves, for one
// on a busy machine a server may be late without anybody's doing, and masters
// that were replaced go on granting until they hear of it.
type masters struct {
	want     int      // how many there should be
	agreed   []string // who they are
	last     []string // at the last look
	sound    int64    // the last time at which all servers said that they are as agreed
	changing bool     // since then
	begun    bool
	note     func(from, to int64)
}

// saw takes one look at the servers, from begin to end. all says that each answered, or is
// dead. One that didn't answer may have become a master, so that a look without it doesn't
// say that the masters are as agreed.
func (m *masters) saw(now []string, all bool, begin, end int64) {
	slices.Sort(now)
	switch {
	case !m.begun:
		m.agreed, m.sound, m.begun = now, begin, true
	case !slices.Equal(now, m.agreed):
		m.changing = true
		// A new agreement is one that lasts.
		if all && len(now) == m.want && slices.Equal(now, m.last) {
			m.agreed = now
		}
	case all:
		m.finish(end)
		m.sound = begin
	}
	m.last = now
}

// finish notes what has changed until now.
func (m *masters) finish(now int64) {
	if m.changing {
		m.note(m.sound, now)
	}
	m.changing = false
}

// Watch notes when masters change, planned or not: what one of them said may be
// forgotten then. It returns when ctx ends. Topologies whose masters can't
// change need no watch.
func (n *Nemesis) Watch(ctx context.Context) {
	if n.Sentinel == nil && n.Cluster == nil {
		return
	}
	m := &masters{want: 1, note: func(from, to int64) {
		n.note(history.Fault{Kind: check.MastersChange, Target: "masters", Worker: -1, From: from, To: to, Amnesia: true})
	}}
	if n.Cluster != nil {
		m.want = len(n.Cluster.Masters)
	}
	roles := n.watchers()
	defer func() {
		for _, r := range roles {
			_ = r.client.Close()
		}
	}()
	for ctx.Err() == nil {
		begin := n.clock.Now()
		now, all := lookAt(ctx, roles)
		if ctx.Err() == nil {
			m.saw(now, all, begin, n.clock.Now())
		}
		timer := time.NewTimer(lookout)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	m.finish(n.clock.Now())
}

// role is what one server says of itself.
type role struct {
	addr   string
	client *redis.Client
	master bool
}

func (n *Nemesis) watchers() []*role {
	var roles []*role
	for _, server := range n.Servers {
		const timeout = 500 * time.Millisecond
		roles = append(roles, &role{addr: server.Addr(), client: redis.NewClient(&redis.Options{
			Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
			DisableIdentity: true,
		})})
	}
	return roles
}

// lookAt returns the masters, and whether all servers are known. One that is dead is none;
// one that doesn't answer is what it was before.
func lookAt(ctx context.Context, roles []*role) (now []string, all bool) {
	var asking sync.WaitGroup
	var silent atomic.Bool
	for _, r := range roles {
		asking.Go(func() {
			said, err := r.client.Do(ctx, "ROLE").Slice()
			switch {
			case err == nil && len(said) > 0:
				r.master = said[0] == "master"
			case errors.Is(err, syscall.ECONNREFUSED):
				r.master = false
			default:
				silent.Store(true)
			}
		})
	}
	asking.Wait()
	for _, r := range roles {
		if r.master {
			now = append(now, r.addr)
		}
	}
	return now, !silent.Load()
}

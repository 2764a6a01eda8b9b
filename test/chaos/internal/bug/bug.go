// Package bug plants bugs between the engine and Redis, each of a kind that
// lock libraries have shipped, to see whether the checkers find them.
package bug

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// Names of the bugs.
const (
	Unlowered      = "unlowered"       // a writer who reads on keeps readers out
	LowerRemoves   = "lower-removes"   // a writer who reads on has nothing any longer
	LowerAgain     = "lower-again"     // a client repeats Lower, which makes a hold where there is none
	IncrFence      = "incr-fence"      // the fence is a counter that is lost with the data
	NoOwner        = "no-owner"        // a release does not look whose lock it is
	LIFO           = "lifo"            // a fair queue serves the last first
	Stranded       = "stranded"        // waiters are not woken
	NoUndo         = "no-undo"         // what nobody got is not released
	ExtendShortens = "extend-shortens" // a renewal sets the TTL, also to less
	OwnerReuse     = "owner-reuse"     // two holds of one owner id
	MessageGrants  = "message-grants"  // who hears a message has the lock
	Collapse       = "collapse"        // giving up costs more than the work did
	Unspaced       = "unspaced"        // the fences of hand-offs are those of later grants
	StaleHandoff   = "stale-handoff"   // a hold is handed on as if it were a new one
	FreshTrust     = "fresh-trust"     // a hold that is handed on is trusted for as long as a new one
	Unkept         = "unkept"          // a release ends a minimum hold
	DeafLeader     = "deaf-leader"     // a leader isn't interrupted when its term is lost
	Unheard        = "unheard"         // a release wakes nobody, and waiters still poll
	ForgetfulClose = "forgetful-close" // Close releases one hold, and none of the others
	EndlessWatch   = "endless-watch"   // no subscription ends
	Unflushed      = "unflushed"       // a grant in PostgreSQL doesn't wait for the log
)

var names = []string{
	Unlowered, LowerRemoves, LowerAgain, IncrFence, NoOwner, LIFO, Stranded, NoUndo, ExtendShortens, OwnerReuse, MessageGrants, Collapse, Unspaced,
	StaleHandoff, FreshTrust, Unkept, DeafLeader, Unheard, ForgetfulClose, EndlessWatch, Unflushed,
}

// Bug is one of them in one process. Without a name it is none.
type Bug struct {
	name    string
	got     sync.Map     // owners that a caller has a lease of
	closing atomic.Bool  // the locker is about to be closed
	ended   atomic.Int32 // releases while it was
}

// Named returns a bug.
func Named(name string) (*Bug, error) {
	if name != "" && !slices.Contains(names, name) {
		return nil, fmt.Errorf("there is no bug %q", name)
	}
	return &Bug{name: name}, nil
}

// Got notes that a caller was given a lease.
func (b *Bug) Got(lease *lock.Lease) {
	if b.name == NoUndo {
		b.got.Store(lease.Owner(), true)
	}
}

// Closing notes that the locker is closed next.
func (b *Bug) Closing() { b.closing.Store(true) }

// Deadline returns until when a caller that was just given a lease trusts it.
func (b *Bug) Deadline(lease *lock.Lease) time.Time {
	if b.name == FreshTrust && lease.Fence()%lock.FenceStep > 0 {
		return time.Now().Add(trustOfNew)
	}
	return lease.Deadline()
}

// trustOfNew is for how long a store grants a lease in a run of controls.
const trustOfNew = 300 * time.Millisecond

// Term returns the context of a leader whose term has that of ctx.
func (b *Bug) Term(ctx context.Context) context.Context {
	if b.name == DeafLeader {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// Flushes reports whether what commits waits for the log.
func (b *Bug) Flushes() bool { return b.name != Unflushed }

// Options returns the options that the bug needs of a locker.
func (b *Bug) Options() []lock.Option {
	if b.name == Stranded {
		return []lock.Option{lock.WithPoll(time.Minute)}
	}
	return nil
}

// In puts the bug before a store. rdb is where that keeps its holds.
func (b *Bug) In(store lock.Store, rdb redis.UniversalClient) lock.Store {
	if planted := b.before(lock.Blocking(store), rdb); planted != nil {
		return lock.Async(planted)
	}
	return store
}

// before is a store with the bug; nil: it has none.
func (b *Bug) before(store lock.BlockingStore, rdb redis.UniversalClient) lock.BlockingStore {
	switch b.name {
	case Unlowered:
		return &unlowered{store}
	case LowerRemoves:
		return &lowerRemoves{store}
	case LowerAgain:
		return &lowerAgain{store, rdb}
	case IncrFence:
		return &incrFence{store, rdb}
	case NoOwner:
		return &noOwner{store, rdb}
	case Unspaced:
		return &unspaced{incrFence{store, rdb}}
	case StaleHandoff:
		return &staleHandoff{BlockingStore: store, kept: make(map[string]string), owners: make(map[string]string)}
	case Unkept:
		return &unkept{store}
	case LIFO:
		return &lifo{BlockingStore: store, rdb: rdb}
	case Stranded:
		return &stranded{unheard{store}}
	case NoUndo:
		return &noUndo{store, b}
	case ExtendShortens:
		return &extendShortens{store, rdb}
	case OwnerReuse:
		return &ownerReuse{BlockingStore: store, aliases: make(map[string]string), taken: make(map[string]bool)}
	case MessageGrants:
		return &messageGrants{BlockingStore: store}
	case Collapse:
		return &collapse{store, rdb}
	case Unheard:
		return unheard{store}
	case ForgetfulClose:
		return &forgetfulClose{store, b}
	case EndlessWatch:
		return &endlessWatch{store}
	}
	return nil
}

func plain(c lock.Claim) bool { return c.Mode == lock.Exclusive }

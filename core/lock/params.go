package lock

import (
	"math/rand/v2"
	"time"

	"github.com/redlatch/redlatch/core/lock/internal/machine"
)

const (
	// A caller that never got an answer gets an error soon. A waiter that knows of another
	// owner rides out a restart or a failover, for which Sentinel and Cluster with their
	// defaults need 15 to 30 s.
	freshTries     = 3
	waiterPatience = 30 * time.Second
	minBackoff     = 5 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
	// undoBackoff bounds the pause after a removal without an answer.
	undoBackoff = time.Second
	// undoSoon is when what an acquire without an answer may have left is removed once more.
	undoSoon = 100 * time.Millisecond
	// afterlife is how long after its timeout a call may still run in the store, for example
	// because it sits in the buffer of a connection.
	afterlife = 2 * time.Second
	// readRenewal is how often a read hold is renewed at least, a fixed one with what is left
	// of it. A reader of Redisson renews by setting the TTL of the whole lock to its own
	// watchdog (30 s by default), also downwards, and may end before the next renewal.
	readRenewal = 10 * time.Second
	// keptWatch is how long a subscription stays that nobody listens to. Where a key goes
	// from process to process, no wait begins with a subscription then, and with another
	// look after it.
	keptWatch = 100 * time.Millisecond
	// maxAbreast callers in a shared mode call side by side. A store whose permits are all
	// taken is not called for each of a crowd.
	maxAbreast = 128
	// A yield lets other lockers call first. After several that nobody used there is none
	// for a while.
	minYield   = time.Millisecond
	maxYield   = 100 * time.Millisecond
	yieldPause = 10 * time.Millisecond
	// placePoll is how long a place in the store's queue is left unnamed. The store gives it
	// up after several times that. placeLook is how long the places are not looked at, but
	// for the new ones, as a look at a long queue takes a while.
	placePoll  = 2500 * time.Millisecond
	placeLook  = 250 * time.Millisecond
	placeTTL   = 15 * time.Second
	placePause = 50 * time.Millisecond
	maxPlaces  = 1000
	// maxUnsettled bounds the acquires that are under way, together with the claims that are
	// to be undone.
	maxUnsettled = 1 << 14
)

// params are what the machines of a locker have in common.
func params(o *options, traits Traits) machine.Params {
	return machine.Params{
		Margin: machine.Time(o.margin), Timeout: machine.Time(o.callTimeout), Life: machine.Time(afterlife),
		MaxTTL: machine.Time(maxAcquireTTL), ReadRenew: machine.Time(readRenewal),
		Poll: machine.Time(o.poll), KeepWatch: machine.Time(keptWatch), Watch: true,
		Tries: freshTries, Patience: machine.Time(waiterPatience),
		BackoffMin: machine.Time(minBackoff), BackoffMax: machine.Time(maxBackoff), UndoBackoff: machine.Time(undoBackoff), UndoSoon: machine.Time(undoSoon),
		Linger: machine.Time(maxAcquireTTL + o.callTimeout),
		Jitter: true, Seed: rand.Uint64(), Abreast: maxAbreast,
		Spaced: traits.Spaced, Ordered: traits.Spaced,
		Handoffs: machine.Fence(o.handoffs), HandoffTime: machine.Time(o.handoffTime),
		YieldMin: machine.Time(minYield), YieldMax: machine.Time(maxYield), YieldPause: machine.Time(yieldPause),
		PlacePoll: machine.Time(placePoll), PlaceLook: machine.Time(placeLook), PlaceTTL: machine.Time(placeTTL),
		PlacePause: machine.Time(placePause), MaxPlaces: maxPlaces,
	}
}

// terms are what an acquisition asks of a machine.
func (o *options) terms(once bool, now machine.Time) machine.Terms {
	t := machine.Terms{
		Mode: machine.Mode(o.mode), Once: once, Apart: o.noReentry,
		Lease: machine.Time(o.lease), Watchdog: machine.Time(o.watchdog), Min: machine.Time(o.minHold), Max: machine.Time(o.limits.hold),
		Timeout: machine.Time(o.callTimeout), Poll: machine.Time(o.poll),
		Crowd: int32(min(o.limits.waiters, maxCrowd)), CrowdAll: int32(min(o.limits.total, maxCrowd)),
	}
	if o.mode == Semaphore {
		t.Permits, t.Size = int32(o.permits), int32(o.size) //nolint:gosec // at most MaxPermits
	}
	if wait, limited := o.longestWait(); limited && !once {
		t.Until = now + machine.Time(wait)
	}
	return t
}

const maxCrowd = 1<<31 - 1

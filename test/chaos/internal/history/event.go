// Package history is what a run writes down: every call with when it began and
// ended, and every fault. It is all that the checkers look at, so that a run
// can be judged again later.
package history

// Kind says what an event reports.
type Kind string

// Acquire, Release, Lower and Force are calls of the locker, announced by a Begin before and
// reported by themselves after. The others happen once.
const (
	Begin   Kind = "begin"   // a call of the kind in Op is about to be made
	Acquire Kind = "acquire" // Acquire or TryAcquire has returned
	Release Kind = "release" // Release has returned
	Lower   Kind = "lower"   // Release has returned, of a writer who reads on
	Grant   Kind = "grant"   // the store granted a claim
	Queued  Kind = "queued"  // the store was given a place in its queue, and has answered or not
	Doubt   Kind = "doubt"   // the store did not say what became of a claim or a renewal
	Renew   Kind = "renew"   // the store answered a renewal
	Lowered Kind = "lowered" // the store answered, or not, that a writer only reads now
	Freed   Kind = "freed"   // the store answered, or not, the release of all that an owner has
	Force   Kind = "force"   // ForceRelease has returned
	Claim   Kind = "claim"   // the resource took a fence
	Write   Kind = "write"   // the resource took a write
	Start   Kind = "start"   // a worker has made its locker, which is the Owner
	Waiting Kind = "waiting" // an acquisition found the key taken, and sleeps
	Late    Kind = "late"    // a process did not run from Call to Return, or a server did not answer
	Pulse   Kind = "pulse"   // how many goroutines a worker has, and how much there is to undo
	Idle    Kind = "idle"    // the last pulse: all clients have ended, and the locker has not
	Close   Kind = "close"   // the Close of a worker's locker has returned
	Left    Kind = "left"    // Close has returned no error, and the store still has a hold of the locker
	Heard   Kind = "heard"   // a server had subscribers for a key
	Exit    Kind = "exit"    // a worker ended by itself
)

// Offices is what the keys begin with that processes campaign for. Who has one
// leads.
const Offices = "leader:"

// Rare is in the names of keys whose waiters hardly ever poll. So they are late if
// nothing wakes them.
const Rare = ":rare-"

// Nobody is the worker of an event that is about all of them.
const Nobody = -1

// Outcome is the result of a call.
type Outcome string

// OK is success. What the others mean:
const (
	OK      Outcome = "ok"
	Busy    Outcome = "busy"    // at once, without waiting: somebody else has the key
	GaveUp  Outcome = "gaveup"  // the wait or the context ended
	Lost    Outcome = "lost"    // the lease had ended before; the locker knew by itself
	NotHeld Outcome = "notheld" // the store says that the owner has no hold
	Unknown Outcome = "unknown" // the store did not answer
)

// Event is one line of a history. Times are those of a [Clock].
type Event struct {
	Kind    Kind    `json:"k"`
	Op      Kind    `json:"op,omitempty"` // of Begin
	Worker  int     `json:"w"`            // number of the process, the same after a restart
	Life    int     `json:"l,omitempty"`  // how often that process was restarted
	Client  int     `json:"c,omitempty"`  // within the process
	ID      uint64  `json:"i,omitempty"`  // the same in a Begin and its end, within one life
	Key     string  `json:"key,omitempty"`
	Mode    string  `json:"m,omitempty"`
	Owner   string  `json:"o,omitempty"`
	Call    int64   `json:"b"`
	Return  int64   `json:"e,omitempty"`
	Outcome Outcome `json:"r,omitempty"`
	Fence   uint64  `json:"f,omitempty"`
	// Nested: the lease of the call shares its hold with another one of its caller, which
	// had it before, or has it on. The store isn't called.
	Nested bool  `json:"h,omitempty"`
	TTL    int64 `json:"ttl,omitempty"`
	// Permits of Size, of a semaphore.
	Permits int `json:"p,omitempty"`
	Size    int `json:"n,omitempty"`
	// Trusted, of a release: the last time at which the lease said that it
	// was held.
	Trusted int64 `json:"t,omitempty"`
	// Until, of an acquisition: until when the lease said that it is held.
	Until int64 `json:"d,omitempty"`
	// Value that the resource has after a write.
	Value int64  `json:"v,omitempty"`
	Note  string `json:"note,omitempty"`
	// Canceled: the context of the acquisition ended before it returned.
	Canceled bool `json:"x,omitempty"`
	// Pending: its last call to the store wasn't answered when it returned.
	Pending bool `json:"u,omitempty"`
	// Keep, of an acquisition: its minimum hold. Of a release in the store: until
	// when that keeps the key; 0: not at all.
	Keep int64 `json:"keep,omitempty"`
	// Goroutines and Backlog of a pulse.
	Goroutines int `json:"g,omitempty"`
	Backlog    int `json:"q,omitempty"`
}

// Fault is one thing that the nemesis did.
type Fault struct {
	Kind   string `json:"kind"`
	Target string `json:"target"`
	// Worker is whom it hit, -1 for everybody.
	Worker int   `json:"worker"`
	From   int64 `json:"from"`
	To     int64 `json:"to"`
	// Amnesia: Redis may have forgotten what it had said.
	Amnesia bool `json:"amnesia,omitempty"`
	// Settled, of a fault that cuts connections: nothing that was under way on
	// them runs after To.
	Settled bool   `json:"settled,omitempty"`
	Note    string `json:"note,omitempty"`
}

// Overlaps says whether the fault was on at some time in [from, to].
func (f Fault) Overlaps(from, to int64) bool { return f.From <= to && from <= f.To }

package machine

// Time is a moment, or a duration, of a locker's monotonic clock in nanoseconds. The
// machine only compares and adds: an explorer counts in ticks.
type Time int64

// Never is a moment that doesn't come.
const Never Time = 1 << 60

// after returns t+d, and Never if either is Never.
func after(t, d Time) Time {
	if t >= Never || d >= Never {
		return Never
	}
	return t + d
}

// rest returns how long it is until t.
func rest(t, now Time) Time {
	if t >= Never {
		return Never
	}
	return t - now
}

type (
	// Slot names a caller or a claim of one machine.
	Slot int32
	// Owner names one hold of one locker. The store never sees it for another hold.
	Owner uint64
	// Fence is the number of a grant: a multiple of [FenceStep] from the store, plus one
	// for each hand-off since.
	Fence uint64
)

const (
	// None is no caller, or no claim.
	None Slot = -1
	// FenceStep is how far the fences of a store are apart that leaves room for hand-offs.
	FenceStep = 64
)

func (f Fence) handoffs() Fence { return f % FenceStep }

// Mode is the kind of a lock.
type Mode uint8

// The modes, in the order of package lock.
const (
	Exclusive Mode = iota
	Fair
	Read
	Write
	Semaphore
	modes
)

// exclusive says whether a hold in that mode keeps every other owner out.
func (m Mode) exclusive() bool { return m == Exclusive || m == Fair || m == Write }

// shared says whether several owners may hold in that mode, so that callers may call
// side by side.
func (m Mode) shared() bool { return m == Read || m == Semaphore }

// Conflict says whether two holds of different owners exclude each other. Permits may.
func Conflict(a, b Mode) bool { return a != Semaphore && b != Semaphore && (a != Read || b != Read) }

// channel is the wake-ups that a subscription of that mode hears.
func (m Mode) channel() Mode {
	if m == Write {
		return Read
	}
	return m
}

// kin is the modes whose wake-ups are heard by one another.
func (m Mode) kin() Mode {
	if m == Fair {
		return Exclusive
	}
	return m.channel()
}

// Kind is the kind of an event.
type Kind uint8

// The events.
const (
	EvArrive    Kind = iota // a caller wants the key
	EvLeave                 // the context of a waiting caller has ended
	EvRelease               // a caller releases its lease, or declines it
	EvExtend                // a caller extends its lease
	EvCommit                // the group of a caller is complete: its minimum hold begins
	EvAcquired              // a call was answered
	EvReleased              //
	EvLowered               //
	EvRenewed               //
	EvForced                //
	EvWatched               //
	EvHint                  // the key may be free
	EvCheck                 // the holds may be gone
	EvTimer                 // a time of Due has come
	EvForce                 // an operator ends all holds
	EvSuspended             // the process may have stood still until now
	EvDrain                 // no new work
	EvEnd                   // no work of the locker holds anything, so none may wait
	EvClose                 // nothing may wait or be held
	kinds
)

// Op is what a call does in the store.
type Op uint8

// The calls. All are absolute, so that one that runs twice changes nothing the second time.
const (
	OpNone    Op = iota
	OpAcquire    // gives the owner the key, and takes or keeps places
	OpRelease    // removes what the owner has in any mode, and its place
	OpLower      // makes a read hold of the owner's write hold
	OpRenew      // makes the owner's hold last longer
	OpForce      // removes all holds
	OpWatch      // subscribes to wake-ups
)

// Call is a call to the store. The shell returns it with the answer.
type Call struct {
	Op      Op
	Mode    Mode
	Undo    bool // no caller waits for this release
	Claim   Slot
	Caller  Slot // whose Extend it is
	Permits int32
	Size    int32
	Named   int32 // how many places it names
	Seq     uint32
	Epoch   uint32 // the suspensions of the process before it was sent
	Order   uint32 // of an OpForce: the last grant that it can remove
	Owner   Owner
	Sent    Time
	By      Time // a call that was not sent by then must not be sent
	TTL     Time
	Keep    Time // of an OpRelease: until when the key stays held, without an owner
}

// Answer is what became of a call.
type Answer uint8

// The answers.
const (
	AnsOK          Answer = iota + 1
	AnsBusy               // another owner has the key
	AnsGone               // the owner doesn't have the key
	AnsUnknown            // it failed, and may have run or may still run
	AnsNotExecuted        // it failed, and certainly did not run
	AnsDown               // it was not sent, as the store is known to be down
	AnsRefused            // the store refuses such a call: a repetition is useless
)

// Leaves says whether an acquire in that mode that is answered so may have left something.
func (a Answer) Leaves(mode Mode) bool {
	return a == AnsOK || a == AnsUnknown || a == AnsBusy && mode == Fair
}

// failed says whether the store gave no decision.
func (a Answer) failed() bool { return a >= AnsUnknown }

// Event is what happens to a key.
type Event struct {
	Kind   Kind
	Caller Slot
	// LedgerFull says that the locker has as many unanswered acquires and claims to undo as
	// it may have.
	LedgerFull bool
	// Decline makes an EvRelease the end of a lease that its caller didn't want.
	Decline bool
	// PerOwner says, with AnsBusy, that each owner needs its own subscription.
	PerOwner bool
	// Private says that a failure says nothing about the store to other callers.
	Private bool
	Answer  Answer
	// Others is how many others listened to the wake-ups of an EvReleased, negative if that
	// is not known.
	Others int32
	// Crowd is how many callers wait in the whole locker.
	Crowd int32
	// Of and Owner are, of an EvArrive, the claim that the caller's context holds.
	Of    Slot
	Owner Owner
	Fence Fence // of an EvAcquired with AnsOK
	// TTL is how long an EvExtend asks for, how long what is in the way of an EvAcquired
	// still lasts, and how much later than now what an EvTimer renews may be due.
	TTL   Time
	Terms Terms // of an EvArrive
	// Places are, of an EvAcquired that is late, the places that its call has named.
	Places []Owner
	Call   *Call // of an answer, as it was sent
}

// Do is the kind of an effect.
type Do uint8

// The effects.
const (
	DoSend    Do = iota + 1 // send the call
	DoReply                 // the caller's Acquire, Release or Extend returns
	DoEnd                   // the caller's lease has ended: end its context
	DoUnwatch               // end the subscription
	DoWait                  // the caller has to wait for others
	DoForget                // the machine knows nothing of the caller any longer, whose lease had ended
)

// Result is what a caller's Acquire, Release or Extend returns.
type Result uint8

// The results.
const (
	ResGranted     Result = iota + 1
	ResBusy               // another owner has the key
	ResCrowded            // too many wait
	ResBacklog            // too much is to be undone first
	ResUnavailable        // the store did not decide
	ResClosed             //
	ResInvalid            // a re-entry that would wait for itself: Why says why
	ResLost               // the lease has ended before
	ResReleased           //
	ResExtended           //
	ResCanceled           //
)

// Why is why a lease has ended.
type Why uint8

// The reasons.
const (
	WhyTaken       Why = iota + 1 // the store said that it has gone, or another has the key
	WhyUnconfirmed                // no renewal was confirmed in time
	WhyLeaseOver                  // its fixed length has passed
	WhyHeldTooLong                // its maximum hold has passed
	WhyClosed                     //
)

// Why a re-entry is refused.
const (
	WhyMode  Why = iota + WhyClosed + 1 // the hold has another mode
	WhyKept                             // one lease would write and one read, and one has a minimum
	WhyLimit                            // the hold ends before the minimum
	WhyApart                            // its caller does not want to share the hold
)

// Effect is what the shell does for a step. Of an acquire that names places, [Machine.Places]
// are those.
type Effect struct {
	Do     Do
	Result Result
	Why    Why
	Caller Slot
	Fence  Fence
	Call   Call
}

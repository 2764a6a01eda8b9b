// Package machine is the engine of one key in one locker, as a pure state machine: events
// go in, effects come out. It has no clock, context, mutex, goroutine or callback. A shell
// has these: it sends the calls, keeps the timers, and wakes the callers.
//
//	out = m.Step(&event, now, out[:0]) // then do what out says
//	at := m.Due()                      // when to send an EvTimer
//
// # What there is
//
// A caller is one acquisition and then its lease. It has one phase from its arrival until
// its lease ends. A claim is what one owner has, or may have, in the store. It has one stage
// from the first call that names the owner until the store certainly has nothing of it. An
// owner is made for one hold and never comes back.
//
// Claims that nobody wants are what is to be undone: there is no other list.
//
// # What a step does
//
// A step begins with lapse: what has ended by the clock has ended, however late timers are.
// Then it handles the event. It ends with advance: the callers that may call do so. So no
// event has to care about who is next.
//
// Each EvArrive, EvRelease and EvExtend gets one reply, in that step or in a later one. An
// answer returns its whole [Call]. One that is no longer of interest changes nothing.
//
// # Rules
//
// Callers wait in one queue. Only its head calls the store, and callers right behind it in
// the same shared mode while the store grants. After a refusal only the head calls again.
//
// A try is refused on arrival if a hold or a caller of this process is in its way. Else it
// waits in the queue, and shares the answer to the call of a try before it.
//
// A wait limit ends no call. While nobody knows of another owner, the answer to the call
// that is under way decides. A limit that passes while the release of a hold of this process
// has no answer says busy, although the key may be free: nobody can know.
//
// A re-entry is a local lease of the same hold. It makes no call, unless its lease is longer
// than what the hold has. When the last lease that writes goes and leases that read remain,
// one OpLower makes a read hold of the write hold.
//
// A hold passes to the head of the queue without a call, in Exclusive and Write, a limited
// number of times and for a limited time. After such a run the hold is released, and if
// other lockers listen, nobody here calls for a moment: the yield. Its length follows from
// whether the others came in time.
//
// A hold that the head waits for is renewed once per poll interval, which verifies it. A
// grant ends the holds of this process that it excludes, by the order of their fences. Where
// fences have no order, both end.
//
// After an acquire without an answer the claim is removed at once, and once more by a call
// that is sent when the acquire can no longer run.
//
// A release is a loss only if the store says that the hold has gone, no release before had
// no answer, and the hold is still trusted when the answer comes.
//
// # Transitions
//
// The explorer of this package runs every interleaving of small scopes. These are the changes
// that it has seen, with the events whose steps made them. A test compares them with what it
// sees.
//
//	phase      next       events
//	absent     queued     arrive
//	absent     calling    arrive
//	absent     joining    arrive
//	absent     holding    arrive
//	queued     absent     leave acquired hint timer drain close
//	queued     calling    leave release acquired released lowered renewed forced watched hint check timer force suspended
//	queued     resting    leave acquired
//	queued     sharing    leave acquired
//	queued     holding    release
//	calling    absent     leave acquired timer drain close
//	calling    resting    acquired
//	calling    retrying   acquired timer
//	calling    joining    acquired
//	calling    holding    acquired
//	resting    absent     leave acquired watched hint timer drain close
//	resting    calling    arrive leave release acquired released renewed forced watched hint check timer force suspended
//	resting    holding    acquired
//	retrying   absent     arrive leave acquired hint timer drain close
//	retrying   calling    arrive leave release acquired hint timer force
//	retrying   holding    acquired
//	sharing    absent     leave acquired timer
//	sharing    calling    leave
//	joining    absent     leave release renewed timer close
//	joining    holding    renewed
//	holding    absent     release acquired lowered renewed forced close
//	holding    extending  extend
//	holding    releasing  release close
//	holding    lost       arrive leave release extend acquired lowered renewed check timer force suspended
//	extending  holding    renewed timer
//	extending  lost       renewed timer
//	releasing  absent     release released lowered renewed forced timer close
//	lost       absent     release timer close
//
// The stages of claims:
//
//	stage      next       events
//	free       asking     arrive leave release acquired released lowered renewed forced watched hint check timer force suspended
//	free       undoing    acquired
//	asking     free       leave acquired watched hint timer drain close
//	asking     held       acquired
//	asking     undoing    arrive leave acquired hint timer drain close
//	held       free       acquired lowered renewed forced
//	held       ending     leave release timer close
//	held       lapsed     arrive leave release extend acquired lowered renewed check timer force suspended
//	held       undoing    release acquired lowered renewed forced timer close
//	ending     free       released
//	ending     undoing    released timer
//	lapsed     free       timer
//	lapsed     undoing    release close
//	undoing    free       acquired released timer
//
// # What stays outside
//
// The shell checks options, and keeps what spans keys: the limits of all waiters and of the
// ledger, groups, whether nothing of a drained locker is held, renewals in one call, and the
// end of Close.
package machine

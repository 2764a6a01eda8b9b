package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var readWriteTests = []test{
	{"readers share, each with its own hold and fence", readersShare},
	{"readers of one key are renewed in one call", renewsEachReader},
	{"a writer keeps readers and writers out", writerExcludes},
	{"a writer waits for the last reader, who wakes it", lastReaderWakes},
	{"a reader that all others end sooner than wakes a writer", longestReaderWakes},
	{"a writer's release wakes readers and writers", writerWakes},
	{"a dead reader keeps a writer out for its own lease only", deadReaderExpires},
	{"a dead reader can neither renew nor release", deadReaderIsGone},
	{"a dead reader starts anew", deadReaderStartsAnew},
	{"lower makes a writer a reader", lowersToReader},
	{"lower wakes readers", lowerWakesReaders},
	{"lower creates nothing", lowerCreatesNothing},
	{"lower lengthens, and never shortens", lowerSetsTTL},
	{"a lowered hold expires", loweredExpires},
	{"a claim to read finds a hold that is not lowered yet", readFindsWriter},
	{"a claim to write finds no reader", writeDoesNotFindReader},
	{"a reader cannot become a writer", readerDoesNotUpgrade},
	{"a plain lock of the same name keeps both out", plainExcludes},
	{"readers and writers keep a plain lock of the same name out", excludePlain},
	{"a force release removes readers and wakes", forcesReaders},
	{"a force release removes a writer and wakes", forcesWriter},
	{"a kept reader keeps writers out until its own end", keptReaderAmongOthers},
	{"inspect lists some of many readers and counts the others", listsReaders},
	{"engine: eight read together, then one writes, then they read", engineTakesTurns},
	{"engine: nobody reads what is half written", engineReadsWhole},
	{"engine: a writer that goes on reading lets others read", engineDowngrades},
	{"engine: a reader that wants to write is refused", engineRefusesUpgrade},
	{"engine: read and write re-enter", engineReentersBoth},
	{"engine: the watchdog keeps a reader, and nobody else's", engineRenewsReader},
	{"engine: one attempt to read or write never waits", engineTriesBoth},
	{"engine: closing leaves no reader", engineClosesReaders},
}

func (b *bench) reader() lock.Claim { return b.in(lock.Read, "k")(minute) }

func (b *bench) writer() lock.Claim { return b.in(lock.Write, "k")(minute) }

// held fails unless k is held in that mode by these; claims of one owner add
// up.
func (b *bench) held(m lock.Mode, claims ...lock.Claim) {
	b.Helper()
	want, got := make(map[string]int), make(map[string]int)
	for _, c := range claims {
		want[c.Owner] += max(1, c.Permits)
	}
	state := b.state("k")
	for _, o := range state.Owners {
		got[o.Owner] += o.Holds
	}
	if !state.Held || state.Mode != m || !maps.Equal(got, want) {
		b.Fatalf("held %v in mode %s by %v; want mode %s, %v", state.Held, state.Mode, got, m, want)
	}
	if state.TTL <= 0 || state.TTL > time.Hour {
		b.Fatalf("TTL %v", state.TTL)
	}
}

// A process may have several holds of one key.
func renewsEachReader(_ *testing.T, b *bench) {
	claims := []lock.Claim{b.reader(), b.reader(), b.reader(), b.reader()}
	stranger := 1
	for i := range claims {
		if claims[i].TTL = brief; i != stranger {
			b.acquire(claims[i])
		}
		claims[i].TTL = minute
	}
	for i, err := range b.renewAll(claims) {
		if i == stranger && !errors.Is(err, lock.ErrNotHeld) || i != stranger && err != nil {
			b.Errorf("reader %d: %v", i, err)
		}
	}
	b.outlive(brief)
	b.held(lock.Read, slices.Delete(claims, stranger, stranger+1)...)
}

func readersShare(_ *testing.T, b *bench) {
	var readers []lock.Claim
	for range 5 {
		c := b.reader()
		b.acquire(c)
		readers = append(readers, c)
		b.held(lock.Read, readers...)
	}
	for len(readers) > 1 {
		b.release(readers[0], nil)
		readers = readers[1:]
		b.held(lock.Read, readers...)
	}
	b.release(readers[0], nil)
	b.isFree("k")
	b.acquire(b.writer())
}

func writerExcludes(_ *testing.T, b *bench) {
	w := b.writer()
	b.acquire(w)
	for _, c := range []lock.Claim{b.reader(), b.writer()} {
		b.busyFor(c, minute)
	}
	b.held(lock.Write, w)
	b.release(w, nil)
	b.acquire(b.reader())
}

func lastReaderWakes(_ *testing.T, b *bench) {
	r1, r2, w := b.reader(), b.reader(), b.writer()
	b.acquire(r1)
	b.acquire(r2)
	heard := b.listen(w)
	b.busyFor(w, minute)
	b.release(r1, nil)
	b.busy(w)
	heard("the last reader left", func() { b.release(r2, nil) })
	b.acquire(w)
	b.busy(r1)
}

func longestReaderWakes(_ *testing.T, b *bench) {
	long, short, w := b.reader(), b.reader(), b.writer()
	short.TTL = minute / 2
	b.acquire(long)
	b.acquire(short)
	heard := b.listen(w)
	b.busyFor(w, minute)
	heard("the lock ends sooner", func() { b.release(long, nil) })
	b.busyFor(w, minute/2)
}

func writerWakes(_ *testing.T, b *bench) {
	w, reader, writer := b.writer(), b.listen(b.reader()), b.listen(b.writer())
	for range 10 {
		b.acquire(w)
		reader("the writer left", func() {
			writer("the writer left", func() { b.release(w, nil) })
		})
	}
}

func deadReaderExpires(_ *testing.T, b *bench) {
	const ttl = 200 * time.Millisecond
	alive, dead, w := b.reader(), b.reader(), b.writer()
	dead.TTL = ttl
	b.acquire(alive)
	b.acquire(dead)
	b.renew(alive, nil) // must not keep the other
	b.outlive(ttl)
	b.renew(alive, nil)
	b.busy(w)
	b.listen(w)("only a dead reader is left", func() { b.release(alive, nil) })
	b.acquire(w)
}

func deadReaderIsGone(_ *testing.T, b *bench) {
	const ttl = 200 * time.Millisecond
	alive, dead := b.reader(), b.reader()
	dead.TTL = ttl
	b.acquire(dead)
	b.acquire(alive)
	b.outlive(ttl)
	dead.TTL = minute
	b.renew(dead, lock.ErrNotHeld)
	b.release(dead, lock.ErrNotHeld)
	b.renew(alive, nil)
	b.busy(b.writer())
}

func deadReaderStartsAnew(_ *testing.T, b *bench) {
	alive, r := b.reader(), b.reader()
	b.acquire(alive)
	r.TTL = brief
	first := b.acquire(r)
	b.outlive(brief)
	r.TTL = minute
	if fence := b.acquire(r); fence <= first {
		b.Errorf("fence %d after %d", fence, first)
	}
	b.held(lock.Read, alive, r)
	b.release(r, nil)
	b.held(lock.Read, alive)
}

func lowersToReader(_ *testing.T, b *bench) {
	w := b.writer()
	b.acquire(w)
	r := as(lock.Read, w)
	for range 2 { // a repetition changes nothing
		b.lower(r, nil)
		b.held(lock.Read, r)
	}
	b.busyFor(b.writer(), minute)
	b.busy(w) // no way back, also for an acquire that arrives late
	other := b.reader()
	b.acquire(other)
	b.held(lock.Read, r, other)
	b.renew(r, nil)
	b.release(r, nil)
	b.release(r, lock.ErrNotHeld)
	b.held(lock.Read, other)
	b.release(other, nil)
	b.acquire(b.writer())
}

func lowerWakesReaders(_ *testing.T, b *bench) {
	w, other := b.writer(), b.reader()
	b.acquire(w)
	b.busy(other)
	b.listen(other)("the writer only reads now", func() { b.lower(as(lock.Read, w), nil) })
	b.acquire(other)
}

// lowerCreatesNothing: it may arrive when the hold has ended, and somebody else has the key.
func lowerCreatesNothing(_ *testing.T, b *bench) {
	w := b.writer()
	r := as(lock.Read, w)
	b.lower(r, lock.ErrNotHeld)
	b.isFree("k")
	b.acquire(w)
	b.lower(b.reader(), lock.ErrNotHeld)
	b.held(lock.Write, w)
	b.release(w, nil)
	b.lower(r, lock.ErrNotHeld)
	b.isFree("k")
	other := b.writer()
	b.acquire(other)
	b.lower(r, lock.ErrNotHeld)
	b.held(lock.Write, other)
	b.release(other, nil)
	b.acquire(b.in(lock.Exclusive, "k")(minute))
	b.lower(r, lock.ErrNotHeld)
}

func lowerSetsTTL(_ *testing.T, b *bench) {
	w := b.writer()
	r := as(lock.Read, w)
	b.acquire(w)
	r.TTL = time.Second
	b.lower(r, nil) // shortens nothing
	b.lasts("k", 30*time.Second, minute)
	r.TTL = 2 * minute
	b.lower(r, nil)
	b.lasts("k", minute, 2*minute)
	other := b.reader()
	b.acquire(other)
	b.release(other, nil)
	b.lasts("k", minute, 2*minute)
}

func loweredExpires(_ *testing.T, b *bench) {
	w, other := b.writer(), b.reader()
	w.TTL = brief
	b.acquire(w)
	b.lower(as(lock.Read, w), nil)
	b.acquire(other)
	b.outlive(brief)
	b.renew(as(lock.Read, w), lock.ErrNotHeld)
	b.lower(as(lock.Read, w), lock.ErrNotHeld)
	b.release(other, nil)
	b.acquire(b.writer())
}

// readFindsWriter: the engine doesn't know yet whether Lower has run.
func readFindsWriter(_ *testing.T, b *bench) {
	w := b.writer()
	r := as(lock.Read, w)
	w.TTL = brief
	b.acquire(w)
	b.renew(r, nil)
	b.outlive(brief)
	b.acquire(r)
	b.held(lock.Write, w)
	reader, writer := b.listen(b.reader()), b.listen(b.writer())
	reader("the writer left", func() {
		writer("the writer left", func() { b.release(r, nil) })
	})
	b.isFree("k")
	b.renew(r, lock.ErrNotHeld)
	b.release(r, lock.ErrNotHeld)
	b.acquire(w)
	b.release(keeping(r, minute), nil)
	b.kept("k", minute)
	b.busy(b.writer())
}

func writeDoesNotFindReader(_ *testing.T, b *bench) {
	r := b.reader()
	b.acquire(r)
	b.renew(as(lock.Write, r), lock.ErrNotHeld)
	b.release(as(lock.Write, r), lock.ErrNotHeld)
	b.renew(b.reader(), lock.ErrNotHeld)
	b.release(b.reader(), lock.ErrNotHeld)
	b.held(lock.Read, r)
}

func readerDoesNotUpgrade(_ *testing.T, b *bench) {
	r, other := b.reader(), b.reader()
	b.acquire(r)
	b.busy(as(lock.Write, r))
	b.acquire(other)
	b.busy(as(lock.Write, r))
	b.held(lock.Read, r, other)
}

// plainModes are the modes that hold a key alone; the store may have no queues.
func (b *bench) plainModes() []lock.Mode {
	modes := []lock.Mode{lock.Exclusive}
	if b.supports(lock.Fair) {
		modes = append(modes, lock.Fair)
	}
	return modes
}

func plainExcludes(_ *testing.T, b *bench) {
	for _, m := range b.plainModes() {
		c := b.in(m, "k")(minute)
		b.acquire(c)
		for _, refused := range []lock.Claim{b.reader(), b.writer(), as(lock.Read, c), as(lock.Write, c)} {
			b.busyFor(refused, minute)
		}
		b.renew(c, nil)
		b.release(c, nil)
	}
	b.acquire(b.reader())
}

func excludePlain(_ *testing.T, b *bench) {
	modes := b.plainModes()
	for _, c := range []lock.Claim{b.reader(), b.writer()} {
		b.acquire(c)
		for _, m := range modes {
			b.busy(b.in(m, "k")(minute))
			b.busy(as(m, c)) // not by the same owner either
		}
		b.held(c.Mode, c)
		b.release(c, nil)
	}
	b.acquire(b.in(lock.Exclusive, "k")(minute))
}

func forcesReaders(_ *testing.T, b *bench) {
	r1, r2 := b.reader(), b.reader()
	b.acquire(r1)
	b.acquire(r2)
	reader, writer := b.listen(b.reader()), b.listen(b.writer())
	reader("force release", func() {
		writer("force release", func() { b.force("k") })
	})
	b.renew(r1, lock.ErrNotHeld)
	b.release(r2, lock.ErrNotHeld)
	w := b.writer()
	b.acquire(w)
	b.renew(r1, lock.ErrNotHeld)
	b.held(lock.Write, w)
	b.release(w, nil)
	b.acquire(r1) // nothing of its former hold is left
	b.held(lock.Read, r1)
}

func forcesWriter(_ *testing.T, b *bench) {
	w := b.writer()
	b.acquire(w)
	reader, writer := b.listen(b.reader()), b.listen(b.writer())
	reader("force release", func() {
		writer("force release", func() { b.force("k") })
	})
	b.renew(w, lock.ErrNotHeld)
	b.renew(as(lock.Read, w), lock.ErrNotHeld)
	b.acquire(b.writer())
}

var (
	reading = lock.WithMode(lock.Read)
	writing = lock.WithMode(lock.Write)
)

func engineTakesTurns(_ *testing.T, b *bench) {
	const n = 8
	lockers := b.slow(2)
	for range 3 {
		var inside, reads atomic.Int32
		leave := make(chan struct{})
		for i := range n {
			b.aside(func() {
				b.do(lockers[i%2], func(ctx context.Context) {
					inside.Add(1)
					select {
					case <-leave:
					case <-ctx.Done():
					}
					reads.Add(1)
				}, reading)
			})
		}
		b.eventually("all read at once", func() bool { return inside.Load() == n })
		b.aside(func() {
			b.do(lockers[0], func(context.Context) {
				if got := reads.Load(); got != n {
					b.Errorf("writing while %d of %d read", n-got, n)
				}
			}, writing)
		})
		close(leave)
		b.asides.Wait()
	}
}

func engineReadsWhole(_ *testing.T, b *bench) {
	lockers := []*lock.Locker{b.locker(), b.locker(), b.locker()}
	var left, right int // unsafe on purpose
	write := func(context.Context) {
		left++
		right++
	}
	read := func(context.Context) {
		if left != right {
			b.Errorf("read %d and %d", left, right)
		}
	}
	const workers, rounds = 12, 8
	together(workers, func(i int) {
		l := lockers[i%len(lockers)]
		for range rounds {
			if i%4 == 0 {
				b.do(l, write, writing)
			} else {
				b.do(l, read, reading)
			}
		}
	})
	if left != workers/4*rounds {
		b.Errorf("%d writes, want %d", left, workers/4*rounds)
	}
}

func engineDowngrades(_ *testing.T, b *bench) {
	lockers := b.slow(2)
	here, there := lockers[0], lockers[1]
	w := b.lease(here, "k", writing)
	got := make(chan struct{})
	b.aside(func() {
		defer close(got)
		together(2, func(i int) { b.do(lockers[i], nothing, reading) })
	})
	r, err := here.Acquire(w.Context(), b.key("k"), reading)
	if err != nil {
		b.Fatalf("a writer that reads: %v", err)
	}
	if r.Owner() != w.Owner() || r.Mode() != lock.Read || r.Fence() != w.Fence() {
		b.Errorf("a read lease of %s in mode %s with fence %d, of a writer %s with %d", r.Owner(), r.Mode(), r.Fence(), w.Owner(), w.Fence())
	}
	select {
	case <-got:
		b.Error("others read while one writes")
	case <-time.After(50 * time.Millisecond): // either way a valid run: waiting or about to
	}
	b.free(w)
	b.await("others read", got)
	b.refuses(b.Context(), there, lock.ErrBusy, writing)
	b.free(r)
	b.free(b.lease(there, "k", writing))
}

func engineRefusesUpgrade(_ *testing.T, b *bench) {
	l := b.locker()
	r := b.lease(l, "k", reading)
	if _, err := l.Acquire(r.Context(), b.key("k"), writing); !errors.Is(err, lock.ErrInvalid) {
		b.Errorf("a reader that writes: got %v, want ErrInvalid", err)
	}
	b.refuses(r.Context(), l, lock.ErrInvalid, writing)
	if err := r.Context().Err(); err != nil {
		b.Errorf("the read lease ended: %v", err)
	}
	b.free(r)
}

func engineReentersBoth(_ *testing.T, b *bench) {
	l := b.locker()
	for _, mode := range []lock.Option{reading, writing} {
		outer := b.lease(l, "k", mode)
		leases := []*lock.Lease{outer}
		for range 2 {
			inner, err := l.Acquire(leases[len(leases)-1].Context(), b.key("k"), mode)
			if err != nil {
				b.Fatalf("re-entry: %v", err)
			}
			leases = append(leases, inner)
		}
		for n := len(leases); n > 0; n-- {
			b.once("k")
			b.free(leases[n-1])
		}
		b.isFree("k")
	}
}

func engineRenewsReader(_ *testing.T, b *bench) {
	const watchdog = 3 * time.Second // a busy machine renews in time as well
	here, there := b.locker(lock.WithWatchdog(watchdog), lock.WithCallTimeout(watchdog/2)), b.locker()
	r := b.lease(here, "k", reading)
	dead := b.reader()
	dead.TTL = watchdog
	b.acquire(dead)
	ctx, cancel := context.WithTimeout(b.Context(), watchdog+time.Second)
	defer cancel()
	if _, err := there.Acquire(ctx, b.key("k"), writing); !errors.Is(err, lock.ErrBusy) {
		b.Errorf("writing after more than a lease of a reader: got %v, want ErrBusy", err)
	}
	if err := r.Context().Err(); err != nil {
		b.Errorf("the read lease ended: %v", context.Cause(r.Context()))
	}
	b.free(r)
	b.free(b.tries(b.Context(), there, writing)) // the dead one was not kept
}

func engineTriesBoth(_ *testing.T, b *bench) {
	lockers := []*lock.Locker{b.locker(), b.locker()}
	r := b.lease(lockers[0], "k", reading)
	for _, l := range lockers {
		b.refuses(b.Context(), l, lock.ErrBusy, writing)
		b.free(b.tries(b.Context(), l, reading))
	}
	b.free(r)
	w := b.lease(lockers[0], "k", writing)
	for _, l := range lockers {
		b.refuses(b.Context(), l, lock.ErrBusy, reading)
		b.refuses(b.Context(), l, lock.ErrBusy, writing)
	}
	b.free(w)
}

func engineClosesReaders(_ *testing.T, b *bench) {
	l := lock.New(b.store)
	b.lease(l, "k", reading)
	stays := b.lease(b.locker(), "k", reading)
	b.closes(l, "k", writing)
	b.held(lock.Read, lock.Claim{Owner: stays.Owner()})
	b.free(stays)
}

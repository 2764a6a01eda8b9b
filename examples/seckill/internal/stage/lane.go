package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

const (
	// patience is how long anything takes on the stage at most.
	patience = 10 * time.Second
	// watchdog is how long a key outlives an instance that dies or stands still. In a crowd
	// nobody shall, also on a machine that is busy.
	watchdog = patience
	// sceneWatchdog is short, so that people see a key run out.
	sceneWatchdog = 1500 * time.Millisecond
	// margin is how long before its key a lease ends: long enough to be seen.
	margin = 200 * time.Millisecond
	// thinking is between the look and the write of an order.
	thinking = 2 * time.Millisecond
)

// lane is one way to guard a sale.
type lane struct {
	id    string
	stage *Stage
	book  book
	// locks are what an order holds: none, those of the user and of the sale, or that of
	// the user.
	locks  []lockOf
	memory *memstore.Store
	show   *lock.Locker // to inspect keys

	mu        sync.Mutex
	instances [instances]*instance
	tally     *tally
	held      map[string]holder
	waiting   map[*wait]struct{}
}

// lockOf is a lock of an order.
type lockOf struct {
	key  func(user string) string
	wait time.Duration
}

func userLock(user string) string { return "lock:order:" + user }
func saleLock(string) string      { return "lock:sale" }

// instance takes orders. Killing it ends what it does, and leaves its keys.
type instance struct {
	n      int
	locker *lock.Locker
	link   *link
	alive  atomic.Bool
}

type holder struct {
	n     int
	lease *lock.Lease
}

// wait is an acquisition that waits.
type wait struct {
	key string
	n   int
}

func (s *Stage) openLanes(ctx context.Context) (lanes []*lane, err error) {
	add := func(id string, b book, err error, locks ...lockOf) error {
		if err != nil {
			return fmt.Errorf("lane %s: %w", id, err)
		}
		memory := memstore.New()
		l := &lane{
			id: id, stage: s, book: b, locks: locks, memory: memory, show: lock.New(memory),
			tally: newTally(), held: make(map[string]holder), waiting: make(map[*wait]struct{}),
		}
		lanes = append(lanes, l)
		for n := range l.instances {
			l.start(ctx, n)
		}
		return b.open(ctx, 1)
	}
	nothing, err := openBeginner(ctx, s.folder, "nothing")
	if err := add("nothing", nothing, err); err != nil {
		return lanes, err
	}
	locked, err := openBeginner(ctx, s.folder, "lock")
	if err := add("lock", locked, err, lockOf{userLock, 0}, lockOf{saleLock, patience}); err != nil { // page: locks
		return lanes, err
	}
	fenced, err := openGuarded(ctx, s.folder)
	if err := add("fence", fenced, err, lockOf{userLock, 0}); err != nil { // page: fence
		return lanes, err
	}
	return lanes, nil
}

// start starts an instance, and ends the dead one in its place.
func (l *lane) start(ctx context.Context, n int) {
	i := &instance{n: n + 1, link: &link{Store: l.memory, outage: l.stage.outage}}
	i.alive.Store(true)
	i.locker = lock.New(i.link, lock.WithWatchdog(watchdog), lock.WithCallTimeout(sceneWatchdog/3), lock.WithMargin(margin),
		lock.WithHooks(lock.Hooks{
			Waiting: func(_ context.Context, e lock.Event) func() { return l.waits(e.Key, i.n) },
		}))
	l.mu.Lock()
	dead := l.instances[n]
	l.instances[n] = i
	l.mu.Unlock()
	if dead != nil {
		dead.end(ctx)
	}
}

// end frees what a dead instance has in memory. Its keys are gone, or run out.
func (i *instance) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = i.locker.Close(ctx) // it can't reach its keys: that is what it shows
}

func (l *lane) close(ctx context.Context) error {
	for _, i := range l.instances {
		if i != nil {
			i.end(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return errors.Join(l.show.Close(ctx), l.book.close())
}

func (l *lane) at(n int) *instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.instances[n%instances]
}

// waits notes that an acquisition waits, until the func that it returns is called.
func (l *lane) waits(key string, n int) (done func()) {
	w := &wait{key, n}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[w] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, w)
	}
}

// What becomes of an order. The others are codes of the service.
const (
	placed   = "placed"
	lateOne  = "LATE_WRITE"
	noAnswer = "NO_ANSWER"
)

// order is a click: locks, taken with opts, a look, a thought, a write. It is the same code
// in all lanes.
func (l *lane) order(ctx context.Context, at *instance, user string, think func(), opts ...lock.Option) (code string) {
	began := time.Now()
	defer func() { l.tally.count(code, time.Since(began)) }()
	if !at.alive.Load() {
		return noAnswer
	}
	ctx, token, leave, err := l.enter(ctx, at, user, opts)
	if err != nil {
		return codeOf(err)
	}
	defer leave()
	l.tally.transaction()
	left, err := l.book.look(ctx, user)
	if err != nil {
		return codeOf(err)
	}
	think()
	if !at.alive.Load() {
		return noAnswer
	}
	// The write is on its way, whatever has become of the lock since.
	if err := l.book.write(context.WithoutCancel(ctx), user, left, token); err != nil {
		return codeOf(err)
	}
	return placed
}

// enter takes the locks of an order. leave gives them back.
func (l *lane) enter(ctx context.Context, at *instance, user string, opts []lock.Option) (context.Context, fence.Token, func(), error) {
	var (
		token  fence.Token
		leases []*lock.Lease
	)
	leave := func() {
		for i := len(leases) - 1; i >= 0; i-- {
			l.release(ctx, at, leases[i])
		}
	}
	for _, of := range l.locks {
		lease, err := at.locker.Acquire(ctx, of.key(user), append(slices.Clip(opts), lock.WithWait(of.wait))...) // page: contended
		if err != nil {
			leave()
			return ctx, token, nil, err
		}
		leases = append(leases, lease)
		l.holds(lease, at.n)
		if len(leases) == 1 {
			if token, err = fence.Of(lease); err != nil {
				leave()
				return ctx, token, nil, err
			}
		}
		ctx = lease.Context() //nolint:fatcontext // the next lock is taken by who has this one
	}
	return ctx, token, leave, nil
}

func (l *lane) holds(lease *lock.Lease, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[lease.Key()] = holder{n, lease}
}

func (l *lane) release(ctx context.Context, at *instance, lease *lock.Lease) {
	if !at.alive.Load() {
		return // it is dead: the key runs out
	}
	_ = lease.Release(context.WithoutCancel(ctx)) // one that is lost has been counted
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[lease.Key()].lease == lease {
		delete(l.held, lease.Key())
	}
}

func codeOf(err error) string {
	for _, known := range []struct {
		err  error
		code string
	}{
		{voucher.ErrAlreadyOrdered, "ALREADY_ORDERED"},
		{voucher.ErrSoldOut, "SOLD_OUT"},
		{voucher.ErrStaleFence, lateOne},
		{lock.ErrBusy, "LOCK_CONTENDED"},
		{lock.ErrUnavailable, "LOCK_UNAVAILABLE"},
		{lock.ErrLost, "LOCK_LOST"},
		{context.Canceled, "CANCELED"},
	} {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return "STORE_UNAVAILABLE"
}

// tally is what became of the clicks since the sale was opened.
type tally struct {
	mu           sync.Mutex
	answers      map[string]int
	transactions int
	took         *hdrhistogram.Histogram
}

func newTally() *tally {
	return &tally{answers: make(map[string]int), took: hdrhistogram.New(1, (2 * patience).Microseconds(), 2)}
}

func (t *tally) count(code string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[code]++ // page: answers
	us := min(max(1, took.Microseconds()), (2 * patience).Microseconds())
	_ = t.took.RecordValue(us) // page: latency
}

// transaction counts an order that gets as far as the database.
func (t *tally) transaction() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.transactions++
}

func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers, t.transactions = make(map[string]int), 0
	t.took.Reset()
}

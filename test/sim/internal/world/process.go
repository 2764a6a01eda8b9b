package world

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/sim/internal/judge"
	"github.com/redlatch/redlatch/test/sim/internal/model"
	"github.com/redlatch/redlatch/test/sim/internal/wire"
)

// process is one process of the fleet: a client, a store, a locker, and callers.
type process struct {
	world  *World
	number int
	rdb    *redis.Client
	store  *redisstore.Store
	member *member // of the quorum; nil without one

	ctx  context.Context // of its callers
	stop context.CancelFunc
	live sync.WaitGroup // callers

	dead      atomic.Bool  // killed: it sends and gets nothing
	frozen    atomic.Int64 // until when its network stands still, in ns since the start
	disturbed atomic.Int64 // until when something disturbs it
	refused   atomic.Int64 // when it last could not dial, since the start; 0: never
	muted     atomic.Int64 // until when calls of before may wait for connections that are mute
	cutBefore atomic.Int64 // how many requests until one is lost; 0: none
	cutAfter  atomic.Int64 // the same for replies
	deafened  atomic.Bool  // it has lost its subscriptions
	backlog   atomic.Int64 // calls that its locker has to undo

	mu     sync.Mutex
	rng    *rand.Rand // of the network
	locker *lock.Locker
	id     int // of the locker
}

// clients is more than the callers of a process can use: the pool of the client
// must never be exhausted, as it keeps timers for that from one bubble to the
// next.
const clients = 500

func (w *World) startProcess(number int) *process {
	p := &process{world: w, number: number, rng: rand.New(rand.NewPCG(w.Seed, 100+w.births.Add(1)))}
	p.rdb = p.client(w.server)
	var options []redisstore.Option
	if w.Features[Tokens] {
		options = append(options, redisstore.WithRedissonTokens())
	}
	if w.Features[SETNX] {
		options = append(options, redisstore.WithSETNX())
	}
	if w.Features[Silent] {
		options = append(options, redisstore.WithoutScriptPublish())
	}
	if w.Features[Timeless] {
		options = append(options, redisstore.WithoutScriptTime())
	}
	p.store = newStore(p.rdb, options...)
	p.ctx, p.stop = context.WithCancel(w.ctx)
	p.open()
	for n := range w.callers {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(1000+1000*number+n)+w.births.Load()*100_000))
		c := &caller{process: p, number: n, rng: rng}
		p.live.Go(c.run)
	}
	if w.Features[Lead] {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(900+1000*number)+w.births.Load()*100_000))
		c := &candidate{caller: &caller{process: p, number: w.callers, rng: rng}}
		p.live.Go(c.run)
	}
	if w.Features[Quorum] {
		p.member = w.join(p, rand.New(rand.NewPCG(w.Seed, uint64(800+1000*number)+w.births.Load()*100_000)))
		p.live.Go(p.member.run)
	}
	if w.Features[Latch] {
		rng := rand.New(rand.NewPCG(w.Seed, uint64(700+1000*number)+w.births.Load()*100_000))
		p.live.Go(w.newCounter(p, rng).run)
	}
	return p
}

// client makes a client of a server.
func (p *process) client(s *server) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Protocol: 2, DisableIdentity: true, DialerRetries: 1,
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return p.dial(s) },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		PoolSize:                 clients, PipelinePoolSize: clients, ReadTimeout: p.world.readTimeout,
		ContextTimeoutEnabled: p.world.Seed/4%2 == 0,
	})
}

func newStore(rdb *redis.Client, options ...redisstore.Option) *redisstore.Store {
	return redisstore.New(rdb, append(options, redisstore.WithLogger(slog.New(slog.DiscardHandler)))...)
}

// open makes the locker that callers use from now on.
func (p *process) open() {
	poll := lock.DefaultPoll
	if p.world.Features[Listen] || p.world.Bug == Stranded {
		poll = listenPoll
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	options := []lock.Option{lock.WithCallTimeout(p.world.callTimeout), lock.WithPoll(poll), lock.WithHooks(lock.Hooks{
		Backlog: func(n int) { p.backlog.Store(int64(n)) },
		Lost:    p.lost,
	})}
	switch p.world.Seed % 4 { // else the default
	case 0:
		options = append(options, lock.WithHandoff(0, 0))
	case 1:
		options = append(options, lock.WithHandoff(lock.FenceStep-1, time.Second))
	}
	p.locker = lock.New(counted{p.world.plant.in(p.store)}, options...)
	p.id = int(p.world.lockers.Add(1))
}

// lost judges that what the store is said to have taken is not there.
func (p *process) lost(e lock.LossEvent) {
	if !errors.Is(e.Cause, lock.ErrTaken) {
		return
	}
	s := p.world.server
	for _, l := range p.world.ledger.taken(p, e.Key) {
		s.mu.Lock()
		s.keys.SetTime(s.clock())
		there := s.backing(l).Present && !s.back[l.Owner]
		s.mu.Unlock()
		p.world.journal.report(judge.Taken(time.Now(), l.Key, l.Owner, there))
	}
}

func (p *process) current() (locker *lock.Locker, id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locker, p.id
}

// drainTime is how long the callers of a locker may go on before it is closed. Most have
// finished by then.
const drainTime = 2 * time.Second

// drainLocker waits for what is held to be released or lost. Nothing is from then on.
func (p *process) drainLocker(locker *lock.Locker, id int) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	err := locker.Drain(ctx)
	p.world.journal.tell("p%d         locker %d drained: %v", p.number, id, err)
	p.world.journal.count("drain: " + outcome(err))
	if err != nil {
		return
	}
	p.world.drain(id)
	p.world.judgeDrained(id)
}

// closeLocker closes a locker, and notes that what its owners get from now on is
// late.
func (p *process) closeLocker(locker *lock.Locker, id int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	muted := p.world.server.muted(p) // its one call for each hold may have no answer
	p.world.plant.closes(id)
	lost := p.world.ledger.lost(p)
	err := locker.Close(ctx)
	p.world.journal.tell("p%d         locker %d closed: %v", p.number, id, err)
	if err != nil {
		if !muted && !p.dead.Load() { // who was killed meanwhile hangs up on it
			p.world.journal.report(judge.Unclosed(time.Now(), p.redialed(p.world.calm(p, lock.Exclusive)), p.world.callTimeout, err.Error()))
		}
		p.world.unclosed.Store(true)
		p.world.disown(id)
		return
	}
	p.world.closedClean(id, lost)
	p.world.retire(id)
}

// kill ends the process as SIGKILL does: what it has sent may arrive, and
// nothing else. Its callers and goroutines are let go.
func (p *process) kill() {
	p.dead.Store(true)
	p.world.ledger.bury(p)
	for _, s := range append(p.world.nodes, p.world.server) {
		for _, c := range s.connections(func(other *process, _ bool) bool { return other == p }) {
			c.HangUp()
		}
	}
	p.stop()
	p.live.Wait()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	locker, _ := p.current()
	_ = locker.Close(gone)
	_ = p.rdb.Close()
	if p.member != nil {
		p.member.close(gone)
	}
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// dial connects at once, or not at all: see package wire.
func (p *process) dial(s *server) (net.Conn, error) {
	if err := p.unreachable(s); err != nil {
		if !s.node {
			p.refused.Store(int64(time.Since(p.world.journal.start)))
		}
		return nil, err
	}
	c := wire.Dial(wire.Path{
		Delay: p.delay, Held: func() time.Duration { return max(p.held(), s.held()) }, Service: s.turn,
		Handshake: handshake,
		Request:   func(c *wire.Conn, args []string, sent time.Time) { s.request(c, p, args, sent) },
		Closed:    s.closed,
	})
	s.accept(c, p)
	p.world.journal.count("connected")
	return c, nil
}

// redial is how long a process that could not dial may wait before it tries again: the client
// dials once a second then, and a subscription pauses for as long.
const redial = time.Second

// redialed is calm, or later when the process has dialed again after it could not. Only
// bounds of about a second need it: of who hears each release, and of Close.
func (p *process) redialed(calm time.Time) time.Time {
	refused := p.refused.Load()
	again := p.world.journal.start.Add(time.Duration(refused) + redial)
	if refused == 0 || again.Before(calm) {
		return calm
	}
	return again
}

// unreachable is why a dial fails; nil: it doesn't.
func (p *process) unreachable(s *server) error {
	switch {
	case p.dead.Load(), s.down.Load():
		return errRefused
	case p.held() > 0:
		return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("i/o timeout")}
	}
	return nil
}

// handshake answers what the client says first, and waits for under a mutex.
func handshake(args []string) (reply []byte, ok bool) {
	switch strings.ToLower(args[0]) {
	case "hello":
		return model.Encode(nil, []model.Reply{"server", "redis", "version", "7.0.15", "proto", int64(2), "mode", "standalone", "role", "master"}), true
	case "client", "select", "auth", "readonly":
		return model.Encode(nil, model.Status("OK")), true
	default:
		return nil, false
	}
}

// held is how much longer the network of the process stands still.
func (p *process) held() time.Duration {
	return time.Duration(p.frozen.Load()) - time.Since(p.world.journal.start)
}

// delay is how long the next chunk takes.
func (p *process) delay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := 50*time.Microsecond + time.Duration(p.rng.Int64N(int64(950*time.Microsecond)))
	if p.world.Features[Slow] && p.rng.IntN(50) == 0 {
		d += time.Duration(p.rng.Int64N(int64(4 * time.Second)))
		p.disturb(d + p.world.callTimeout)
		p.world.journal.count("fault: slow packet")
	}
	return d
}

// disturb notes that something disturbs the process for d.
func (p *process) disturb(d time.Duration) {
	until := int64(time.Since(p.world.journal.start) + d)
	for {
		old := p.disturbed.Load()
		if old >= until || p.disturbed.CompareAndSwap(old, until) {
			return
		}
	}
}

// countdown says whether a fault that was armed for the n-th request is due.
func (p *process) countdown(n *atomic.Int64) bool {
	for {
		left := n.Load()
		if left == 0 {
			return false
		}
		if n.CompareAndSwap(left, left-1) {
			return left == 1
		}
	}
}

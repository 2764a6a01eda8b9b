package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/worker"
	"github.com/redlatch/redlatch/test/chaos/internal/world"
	"github.com/redlatch/redlatch/test/internal/faultproxy"
)

// Nemesis carries out plans.
type Nemesis struct {
	*world.World
	clock history.Clock
	note  func(history.Fault)
	// key is one that is in use now.
	key func(dice uint64) string

	workers, servers []sync.Mutex // one fault of a kind at a time
	several          sync.Mutex   // and one that hits a server at a time
	topology         sync.Mutex
}

// New returns a nemesis of w. What it did goes to note.
func New(w *world.World, clock history.Clock, note func(history.Fault), key func(dice uint64) string) *Nemesis {
	return &Nemesis{
		World: w, clock: clock, note: note, key: key,
		workers: make([]sync.Mutex, len(w.Workers)), servers: make([]sync.Mutex, len(w.Servers)),
	}
}

// Run carries out a plan, and returns when everything that it broke works
// again. Steps that aren't due when ctx ends are left out.
func (n *Nemesis) Run(ctx context.Context, plan []Step) {
	start := time.Now()
	var waits []func()
	for _, step := range plan {
		timer := time.NewTimer(time.Until(start.Add(step.At)))
		select {
		case <-timer.C:
			waits = append(waits, n.Go(func() { n.do(step) }))
		case <-ctx.Done():
			timer.Stop()
		}
		if ctx.Err() != nil {
			break
		}
	}
	for _, wait := range waits {
		wait()
	}
}

func (n *Nemesis) do(s Step) {
	if s.Kind == RollRedis {
		for server := range n.Servers {
			n.do(Step{Kind: KillRedis, Server: server, For: s.For})
		}
		return
	}
	f := history.Fault{Kind: s.Kind, Worker: s.Worker, Target: fmt.Sprintf("worker %d", s.Worker)}
	switch s.Kind {
	case PauseWorker, KillWorker:
		n.workers[s.Worker].Lock()
		defer n.workers[s.Worker].Unlock()
	case PauseRedis, KillRedis:
		n.servers[s.Server].Lock()
		defer n.servers[s.Server].Unlock()
		n.several.Lock()
		defer n.several.Unlock()
	case Failover, MoveSlot:
		n.topology.Lock()
		defer n.topology.Unlock()
	}
	switch s.Kind {
	case PauseRedis, KillRedis, KillPubSub, ScriptFlush, Failover, MoveSlot:
		f.Worker, f.Target = -1, fmt.Sprintf("server %d", s.Server)
	}
	f.From = n.clock.Now()
	did, err := n.carryOut(&f, s)
	switch s.Kind {
	case CutLinks, CutRequest, CutReply:
		f.Settled = did && n.settle(s.Worker)
	}
	if f.To == 0 {
		f.To = n.clock.Now()
	}
	if err != nil {
		n.Errorf("nemesis: %s of %s: %v", s.Kind, f.Target, err)
	}
	if did {
		n.note(f)
	}
}

// carryOut says whether the fault has come about.
func (n *Nemesis) carryOut(f *history.Fault, s Step) (did bool, err error) {
	switch s.Kind {
	case PauseWorker:
		return true, n.pauseWorker(s)
	case KillWorker:
		n.Workers[s.Worker].Current().Kill()
		f.To = n.clock.Now()
		time.Sleep(s.For) //nolint:forbidigo // the fault is the time that it takes
		return true, n.Workers[s.Worker].Replace()
	case PauseRedis:
		n.Servers[s.Server].Stop()
		time.Sleep(s.For) //nolint:forbidigo // as above
		n.Servers[s.Server].Cont()
	case KillRedis:
		f.Amnesia = !n.Durable
		n.Servers[s.Server].Kill()
		time.Sleep(s.For) //nolint:forbidigo // as above
		n.Servers[s.Server].Restart()
	case CutLinks:
		did := false
		for _, l := range n.Links[s.Worker] {
			did = did || l.Connections() > 0
			l.CutAll()
		}
		return did, nil
	case CutRequest:
		return n.met(s, (*faultproxy.Proxy).CutRequestWhen), nil
	case CutReply:
		return n.met(s, (*faultproxy.Proxy).CutReplyWhen), nil
	case Delay, HoldRequest, HoldReply:
		n.slow(s)
	case KillPubSub:
		return true, n.command(s.Server, "CLIENT", "KILL", "TYPE", "pubsub")
	case ScriptFlush:
		return true, n.command(s.Server, "SCRIPT", "FLUSH")
	case Failover:
		f.Amnesia = true
		return true, n.failover(f, s)
	case MoveSlot:
		return n.moveSlot(f, n.key(s.Dice))
	}
	return true, nil
}

func (n *Nemesis) pauseWorker(s Step) error {
	p := n.Workers[s.Worker].Current()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("worker %d has ended by itself: %w", s.Worker, err)
	}
	time.Sleep(s.For) //nolint:forbidigo // the fault is the time that it takes
	if err := p.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// met sets a rule for the next script of a worker, and waits until it applies.
// Nobody knows in advance to which server that goes; to all of a quorum, of
// which one is to be hit.
func (n *Nemesis) met(s Step, set func(*faultproxy.Proxy, faultproxy.Match, int) *faultproxy.Rule) bool {
	hit := make(chan struct{}, len(n.Servers))
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.For)
	defer cancel()
	links := n.Links[s.Worker]
	if n.Topology == worker.Quorum {
		links = links[s.Server : s.Server+1]
	}
	for _, link := range links {
		rule := set(link, n.call(), 1)
		defer rule.Remove()
		waiting.Go(func() {
			select {
			case <-rule.Hit():
				hit <- struct{}{}
			case <-ctx.Done():
			}
		})
	}
	select {
	case <-hit:
		return true
	case <-ctx.Done():
		return false
	}
}

// call matches what changes something: a script, or a statement.
func (n *Nemesis) call() faultproxy.Match {
	if n.Database == nil {
		return faultproxy.Contains("eval")
	}
	insert, update := faultproxy.Contains("INSERT INTO redlatch_locks"), faultproxy.Contains("UPDATE redlatch_locks")
	return func(request []byte) bool { return insert(request) || update(request) }
}

// settle waits until nothing can still run that was under way on connections
// of a worker that were cut. A server reads all connections that have something
// to say before it reads one of them again, so a second answer shows that what
// came before the first command was read.
func (n *Nemesis) settle(worker int) bool {
	if n.Database != nil {
		return false // each connection has a thread or a process of its own
	}
	ctx, cancel := context.WithTimeout(n.Context(), 5*time.Second)
	defer cancel()
	for _, link := range n.Links[worker] {
		if !link.Settle(ctx) {
			return false
		}
	}
	var asking sync.WaitGroup
	var failed atomic.Bool
	for _, rdb := range n.Plain {
		asking.Go(func() {
			if cmp.Or(rdb.Ping(ctx).Err(), rdb.Ping(ctx).Err()) != nil {
				failed.Store(true)
			}
		})
	}
	asking.Wait()
	return !failed.Load()
}

func (n *Nemesis) slow(s Step) {
	for _, link := range n.Links[s.Worker] {
		switch s.Kind {
		case Delay:
			d := time.Duration(s.Dice%30) * time.Millisecond
			link.Delay(d, d/2)
			defer link.Delay(0, 0)
		case HoldRequest:
			link.HoldUp()
			defer link.Resume()
		case HoldReply:
			link.HoldDown()
			defer link.Resume()
		}
	}
	time.Sleep(s.For) //nolint:forbidigo // the fault is the time that it takes
}

// command sends a command to a server; one that is down misses it.
func (n *Nemesis) command(server int, args ...any) error {
	ctx, cancel := context.WithTimeout(n.Context(), 5*time.Second)
	defer cancel()
	_ = n.Plain[server].Do(ctx, args...).Err()
	return nil
}

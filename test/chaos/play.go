package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/nemesis"
	"github.com/redlatch/redlatch/test/chaos/internal/report"
	"github.com/redlatch/redlatch/test/chaos/internal/resource"
	"github.com/redlatch/redlatch/test/chaos/internal/worker"
	"github.com/redlatch/redlatch/test/chaos/internal/world"
	"github.com/redlatch/redlatch/test/internal/process"
)

const (
	generation  = 2500 * time.Millisecond
	keysPerMode = 6
	// offices are the keys that every process campaigns for, and term is how long
	// they are used: leaders last longer than other leases.
	offices      = 2
	term         = 10 * time.Second
	endOfWorkers = 60 * time.Second
	// forgotten is the lease of what is given up: beyond the life of its key.
	forgotten = 10 * time.Second
)

// stage is where a run writes, and what its workers talk to.
type stage struct {
	report.Flags
	folder  report.Folder
	clock   history.Clock
	events  *history.File
	faults  *history.File
	counter *resource.Server
	sockets string
	serving sync.WaitGroup
}

// play makes a run, and leaves its history in the folder.
func play(ctx context.Context, folder report.Folder, flags report.Flags) (err error) {
	debug.SetGCPercent(400)
	s := &stage{Flags: flags, folder: folder, clock: history.StartClock()}
	if err := folder.Begin(flags); err != nil {
		return err
	}
	if s.events, err = history.Create(folder.Path(report.HistoryFile)); err != nil {
		return err
	}
	if s.faults, err = history.Create(folder.Path(report.FaultsFile)); err != nil {
		return errors.Join(err, s.events.Close())
	}
	s.counter = resource.New(s.clock, func(e history.Event) { _ = s.events.Add(e) })
	end := report.End{}
	start := time.Now()
	broken := process.RunProgram(ctx, folder.Path(report.ServersDir), func(line string) { fmt.Fprintln(os.Stderr, line) },
		func(p *process.Program) { s.body(p, &end) })
	if broken != nil {
		end.Broken = append(end.Broken, broken.Error())
	}
	end.Elapsed, end.Totals = time.Since(start), s.counter.Totals()
	return errors.Join(s.events.Close(), s.faults.Close(), folder.Finish(end))
}

// body is a run, from the start of the servers to the search for leaks.
func (s *stage) body(p *process.Program, end *report.End) {
	must := func(err error) {
		if err != nil {
			p.Fatal(err)
		}
	}
	w, err := world.Start(p, s.Topology, s.Processes, s.Durable)
	must(err)
	plan, err := nemesis.Plan(s.Seed, nemesis.Setting{
		Mix: s.Mix, Topology: s.Topology, Workers: s.Processes, Servers: len(w.Servers), Duration: s.Duration, Rate: s.Rate, Lease: s.Lease,
	})
	must(err)
	must(s.folder.Plan(plan))
	must(s.listen(p))
	for i := range s.Processes {
		must(w.Employ(i, string(s.folder), func(life int) (process.Spec, error) { return s.worker(w, i, life) }))
	}
	w.Pace(s.Flags.Pace)
	n := nemesis.New(w, s.clock, func(f history.Fault) { _ = s.faults.Add(f) }, s.anyKey)
	over, cancel := context.WithTimeout(p.Context(), s.Duration)
	watching, stop := context.WithCancel(p.Context())
	watched := p.Go(func() { n.Watch(watching) })
	note := func(e history.Event) { _ = s.events.Add(e) }
	probed := p.Go(func() { w.Probe(watching, s.clock, note) })
	listed := p.Go(func() { w.Subscribers(watching, s.clock, note) })
	p.Cleanup(func() {
		stop()
		watched()
		probed()
		listed()
	})
	n.Run(over, plan)
	<-over.Done()
	cancel()
	s.dismiss(p, w)
	stop()
	watched()
	probed()
	listed()
	if p.Failed() || p.Context().Err() != nil {
		return // there is nothing to be said of a run that did not work
	}
	crew, err := s.crew(w)
	must(err)
	end.Leaks = w.Leaks(p.Context(), crew)
}

// crew is who worked in the run.
func (s *stage) crew(w *world.World) (world.Crew, error) {
	crew := world.Crew{
		Killed: make(map[string]bool), Longest: max(forgotten, 2*s.Lease), Forgetful: !s.Durable || s.Topology != worker.Standalone,
	}
	for number, employed := range w.Workers {
		for life := range employed.Lives() {
			id, err := os.ReadFile(s.page(number, life) + worker.Identity)
			switch {
			case err == nil:
				_, unclean := os.Stat(s.page(number, life) + worker.Unclean) // then it left what a killed one leaves
				crew.Killed[string(id)] = life+1 < employed.Lives() || unclean == nil
			case !errors.Is(err, os.ErrNotExist): // it was killed before it had one
				return crew, err
			}
		}
	}
	return crew, nil
}

// anyKey is one that is in use now.
func (s *stage) anyKey(dice uint64) string {
	modes := s.modes()
	return fmt.Sprintf("%s:%d:g%d", modes[dice%uint64(len(modes))], dice/8%keysPerMode, s.clock.Now()/int64(generation))
}

func (s *stage) modes() []string {
	if s.Mode == "all" {
		return []string{"exclusive", "exclusive", "exclusive", "exclusive", "handed", "nested", "readwrite", "semaphore", "fair"}
	}
	if s.Mode == "leader" {
		return []string{"exclusive"}
	}
	return []string{s.Mode}
}

// offices is how many keys every process campaigns for.
func (s *stage) offices() int {
	if s.Mode == "all" || s.Mode == "leader" {
		return offices
	}
	return 0
}

// worker is how to start one.
func (s *stage) worker(w *world.World, number, life int) (process.Spec, error) {
	self, err := os.Executable()
	if err != nil {
		return process.Spec{}, err
	}
	config, err := json.Marshal(worker.Config{
		Worker: number, Life: life, Clients: s.Clients, Seed: s.Seed, Clock: s.clock,
		Record: s.page(number, life), Counter: s.socket("counter"), Bug: s.Bug,
		Redis: w.Redis(number), Modes: s.modes(),
		Load: worker.Load{Lease: s.Lease, Keys: keysPerMode, Generation: generation, Long: s.Long, Leave: s.Leave, Keep: s.Keep, Offices: s.offices(), Term: term, Forgotten: forgotten, Handoff: s.Handoff, SETNX: s.SETNX, Think: s.Think},
	})
	return process.Spec{Path: self, Args: []string{"worker", string(config)}}, err
}

// dismiss ends the workers, and waits for them.
func (s *stage) dismiss(p *process.Program, w *world.World) {
	for _, employed := range w.Workers {
		_ = employed.Current().Signal(syscall.SIGTERM) // fails only if it has ended, which is looked at below
	}
	for i, employed := range w.Workers {
		err := process.Poll(endOfWorkers, func() error {
			if employed.Current().Alive() {
				return errors.New("it is alive")
			}
			return nil
		})
		if err != nil {
			p.Errorf("worker %d does not end: %w", i, err)
		}
		if log := employed.Current().Log(); log != "" {
			p.Errorf("worker %d: %s", i, log)
		}
	}
}

func (s *stage) socket(name string) string { return filepath.Join(s.sockets, name) }

// listen opens the socket at which workers find the resource. Its path must be
// short.
func (s *stage) listen(p *process.Program) (err error) {
	if s.sockets, err = os.MkdirTemp("", "chaos"); err != nil {
		return err
	}
	p.Cleanup(func() {
		if err := s.collect(); err != nil {
			p.Errorf("collect the history: %w", err)
		}
		_ = os.RemoveAll(s.sockets)
	})
	p.Cleanup(s.serving.Wait)
	listener, err := net.Listen("unix", s.socket("counter"))
	if err != nil {
		return err
	}
	p.Cleanup(func() { _ = listener.Close() })
	s.serving.Go(func() { s.accept(listener) })
	return nil
}

func (s *stage) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed at the end
		}
		s.serving.Go(func() {
			defer conn.Close() //nolint:errcheck // the worker has ended
			s.counter.Serve(conn)
		})
	}
}

// page is the file that one life of a worker writes to.
func (s *stage) page(worker, life int) string {
	return filepath.Join(s.sockets, fmt.Sprintf("%d-%d.jsonl", worker, life))
}

// collect puts what all workers wrote into one file.
func (s *stage) collect() error {
	pages, err := filepath.Glob(filepath.Join(s.sockets, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		if err := history.CopyPage(s.events, page); err != nil {
			return err
		}
	}
	return nil
}

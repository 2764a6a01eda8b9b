package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

const (
	workers  = 2 // of each process
	lockKeys = 4
	// patience bounds the wait for the next grants.
	patience = time.Minute
	// killEvery: of so many processes that are replaced, one is killed.
	killEvery = 4
)

// route is one migration: every process of from is replaced by one of each of via,
// in this order.
type route struct {
	from   kind
	via    []kind
	places int // processes that run at a time
}

var routes = []route{
	{withRedsync, []kind{oursAsSETNX, oursAsHash}, 6},
	{withRedislock, []kind{oursAsSETNX, oursAsHash}, 6},
	{byHand, []kind{oursAsSETNX, oursAsHash}, 6},
	{withRedisPy, []kind{oursAsSETNX, oursAsHash}, 6},
	{withRedlock, []kind{oursAsSETNX, oursAsHash}, 6},
	{byHand, []kind{oursAsHash}, 6},
}

// replacement is one process that takes the place of another.
type replacement struct {
	place int
	kind  kind
}

// steps are the replacements of a route. In the middle of each deployment, one
// process is rolled back and deployed again.
func (r route) steps() (steps []replacement) {
	before := r.from
	for _, next := range r.via {
		for place := range r.places {
			steps = append(steps, replacement{place, next})
			if place == r.places/2 {
				steps = append(steps, replacement{0, before}, replacement{0, next})
			}
		}
		before = next
	}
	return steps
}

// result is what became of a migration.
type result struct {
	route
	grants           map[kind]int
	replaced, killed int
	faults           []string
}

// String is a row of the table.
func (r result) String() string {
	old, ours := r.grants[r.from], 0
	by := make([]string, len(r.via))
	for i, k := range r.via {
		ours += r.grants[k]
		by[i] = string(k)
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d |",
		r.from, strings.Join(by, ", then "), old+ours, old, ours, r.replaced, r.killed, len(r.faults))
}

// fleet is the processes of one migration.
type fleet struct {
	process.Host
	*referee
	locks, judges *redistest.Server
	keys          []string
	running       []*worker // by place
	started       int
}

// worker is a running process.
type worker struct {
	*process.Process
	name string
	kind kind
}

// migrate runs one migration, which ends after that many grants.
func migrate(host process.Host, r route, grants int) result {
	host.Helper()
	f := &fleet{Host: host, running: make([]*worker, r.places), locks: redistest.Standalone(host), judges: redistest.Standalone(host)}
	f.referee = &referee{rdb: f.judges.Client(host)}
	for n := range lockKeys {
		f.keys = append(f.keys, fmt.Sprintf("lock:%s:%d", r.from, n))
	}
	defer func() {
		for _, w := range f.running {
			if w != nil {
				w.Kill()
			}
		}
	}()
	for place := range r.places {
		f.start(place, r.from)
	}
	done := result{route: r}
	steps := r.steps()
	for n, step := range steps {
		f.await(grants * (n + 1) / (len(steps) + 1))
		done.replaced++
		if n%killEvery == killEvery-1 {
			done.killed++
			f.kill(step.place)
		} else {
			f.stop(step.place)
		}
		f.start(step.place, step.kind)
	}
	f.await(grants)
	for place := range r.places {
		f.stop(place)
	}
	var err error
	if done.grants, _, err = f.count(host.Context()); err != nil {
		host.Fatal(err)
	}
	if done.faults, err = f.judge(host.Context(), f.keys); err != nil {
		host.Fatal(err)
	}
	return done
}

func (f *fleet) start(place int, k kind) {
	f.Helper()
	f.started++
	name := fmt.Sprintf("%d-%s", f.started, k)
	text, err := json.Marshal(order{
		Kind: k, Process: name, Locks: f.locks.Addr(), Referee: f.judges.Addr(), Keys: f.keys, Workers: workers,
		TTL: ttl.Milliseconds(), Retry: retry.Milliseconds(),
	})
	if err != nil {
		f.Fatal(err)
	}
	path, args, err := k.program()
	if err != nil {
		f.Fatal(err)
	}
	dir := f.TempDir()
	p, err := process.Start(process.Spec{
		Path: path, Args: append(args, workerCommand, string(text)), Dir: dir, Log: filepath.Join(dir, "log"),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.running[place] = &worker{p, name, k}
}

// await waits until that many locks were granted, and every process has had one:
// no kind starves another.
func (f *fleet) await(grants int) {
	f.Helper()
	err := process.Poll(patience, func() error {
		_, all, err := f.count(f.Context())
		if err == nil && all < grants {
			err = fmt.Errorf("%d grants of %d", all, grants)
		}
		for _, w := range f.running {
			n, failed := f.visits(f.Context(), w.name)
			if failed == nil && n == 0 {
				failed = fmt.Errorf("%s had no lock yet\n%s", w.name, w.Log())
			}
			err = errors.Join(err, failed)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
}

// stop ends a process as a deployment does.
func (f *fleet) stop(place int) {
	f.Helper()
	w := f.running[place]
	w.Shutdown(syscall.SIGTERM, patience)
	if log := w.Log(); log != "" {
		f.Errorf("%s: %s", w.name, log)
	}
}

// kill ends a process as a crash does. What it held stays until its TTL ends.
func (f *fleet) kill(place int) {
	f.Helper()
	w := f.running[place]
	w.Kill()
	if err := f.bury(context.WithoutCancel(f.Context()), f.keys, w.name); err != nil {
		f.Fatal(err)
	}
}

// Package stage shows what a lock is for. The same crowd orders in three lanes: without a
// guard, with locks, and with a lock whose fence the database checks. Each lane has its own
// database, which the stage makes and removes: nothing here can be pointed at another one.
//
// Three instances take the orders. They are three lockers in one process, on locks in
// memory, and the page says so. Buttons hurt them: an instance is killed or paused,
// the lock store is stopped.
package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// instances is how many take orders.
const instances = 3

// Stage is the three lanes and what happens on them. It is safe for concurrent use.
type Stage struct {
	folder string
	lanes  []*lane
	outage *outage
	board  *board

	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	busy   string // what runs now
	run    run
	up     [instances]bool
	scene  *scene
	log    []line
}

// run is the crowd that was sent last.
type run struct {
	N    int   `json:"n"`
	Seed int64 `json:"seed"`
	Crowd
}

// line is something that happened, for people.
type line struct {
	At time.Time `json:"at"`
	// Kind names a sentence of the page, and Args are what it is about.
	Kind string   `json:"kind"`
	Args []string `json:"args"`
}

// shownLines is how many lines of the log are shown.
const shownLines = 5

// Errors of actions.
var (
	// ErrBusy: one thing happens at a time.
	ErrBusy = errors.New("the stage is busy")
	// ErrUnknown: there is no such action.
	ErrUnknown = errors.New("no such action")
	// ErrInvalid: a crowd is too large, or has nobody in it.
	ErrInvalid = errors.New("not a crowd of the stage")
)

// Open makes the databases, in a new folder that [Stage.Close] removes.
func Open(ctx context.Context) (*Stage, error) {
	folder, err := os.MkdirTemp("", "seckill-stage-")
	if err != nil {
		return nil, fmt.Errorf("folder for the stage: %w", err)
	}
	s := &Stage{folder: folder, outage: new(outage), up: [instances]bool{true, true, true}}
	if s.lanes, err = s.openLanes(ctx); err != nil {
		return nil, errors.Join(err, s.clear(ctx))
	}
	loop, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.board = newBoard(loop)
	s.running.Go(func() { s.show(loop) })
	return s, nil
}

// Close ends what runs, and removes the databases.
func (s *Stage) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	return s.clear(context.Background())
}

func (s *Stage) clear(ctx context.Context) error {
	var errs []error
	for _, l := range s.lanes {
		errs = append(errs, l.close(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(s.folder))...)
}

// say adds a line to the log.
func (s *Stage) say(kind string, args ...any) {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = fmt.Sprint(a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, line{time.Now(), kind, texts})
	s.log = s.log[max(0, len(s.log)-shownLines):]
}

// begin runs do while nothing else runs.
func (s *Stage) begin(what string, do func(ctx context.Context)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != "" || s.closed {
		return ErrBusy
	}
	s.busy = what
	ctx := s.board.ctx
	s.running.Go(func() {
		defer func() {
			s.mu.Lock()
			s.busy = ""
			s.mu.Unlock()
		}()
		do(ctx)
	})
	return nil
}

// everywhere calls do for each lane at once.
func (s *Stage) everywhere(do func(*lane)) {
	var lanes sync.WaitGroup
	for _, l := range s.lanes {
		lanes.Go(func() { do(l) })
	}
	lanes.Wait()
}

// StopLocks stops or starts the lock store of all lanes.
func (s *Stage) StopLocks(down bool) {
	if s.outage.down.Swap(down) == down {
		return
	}
	if down {
		s.say("store stopped")
	} else {
		s.say("store started")
	}
}

// StartInstance starts an instance that was killed.
func (s *Stage) StartInstance(n int) error {
	if n < 1 || n > instances {
		return ErrUnknown
	}
	s.mu.Lock()
	was := s.up[n-1]
	s.up[n-1] = true
	s.mu.Unlock()
	if was {
		return nil
	}
	for _, l := range s.lanes {
		l.start(s.board.ctx, n-1)
	}
	s.say("instance started", n)
	return nil
}

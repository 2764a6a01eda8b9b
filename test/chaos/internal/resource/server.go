// Package resource is what the locks protect: counters that know nothing of
// Redis, kept by the orchestrator, where no fault reaches them. Each key has
// one that looks at fences and one that doesn't.
package resource

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// cell is what is kept for one key.
type cell struct {
	mode          string
	fence         uint64
	owner         string
	value, acked  int64
	plain, plains int64 // without fences: value, and how many writes
}

// Server keeps the counters. Its methods may be called from any goroutine.
type Server struct {
	clock history.Clock
	log   func(history.Event)

	mu    sync.Mutex
	cells map[string]*cell
	stale int
}

// New returns an empty server. What it accepts goes to log, in its order.
func New(clock history.Clock, log func(history.Event)) *Server {
	return &Server{clock: clock, log: log, cells: make(map[string]*cell)}
}

func (s *Server) cell(key, mode string) *cell {
	c := s.cells[key]
	if c == nil {
		c = &cell{mode: mode}
		s.cells[key] = c
	}
	return c
}

// handle answers one request.
func (s *Server) handle(r Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cell(r.Key, r.Mode)
	switch r.Op {
	case claim:
		// Before anything is read: a holder with a smaller fence after
		// this is refused, so what is read now stays true until the write.
		if r.Fence < c.fence || r.Fence == c.fence && r.Owner != c.owner {
			return s.refuse()
		}
		c.fence, c.owner = r.Fence, r.Owner
		s.note(history.Claim, r, c.value)
		return Reply{OK: true, Value: c.value, Plain: c.plain}
	case write:
		c.plain = r.Plain
		c.plains++
		if r.Fence != c.fence || r.Owner != c.owner {
			return s.refuse()
		}
		c.value = r.Value
		c.acked++
		s.note(history.Write, r, c.value)
		return Reply{OK: true}
	default:
		return Reply{}
	}
}

func (s *Server) refuse() Reply {
	s.stale++
	return Reply{}
}

func (s *Server) note(kind history.Kind, r Request, value int64) {
	s.log(history.Event{
		Kind: kind, Worker: r.Worker, Key: r.Key, Mode: r.Mode, Owner: r.Owner, Fence: r.Fence,
		Value: value, Call: s.clock.Now(),
	})
}

// Totals are what became of all counters.
type Totals struct {
	Stale     int   `json:"staleRefused"` // claims and writes that were refused
	Fenced    int64 `json:"fencedWrites"`
	Lost      int64 `json:"fencedLost"`
	Plain     int64 `json:"unfencedWrites"`
	PlainLost int64 `json:"unfencedLost"`
}

// Totals adds up. A write that was confirmed and isn't in the counter is lost.
func (s *Server) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := Totals{Stale: s.stale}
	for _, key := range slices.Sorted(maps.Keys(s.cells)) {
		c := s.cells[key]
		t.Fenced += c.acked
		t.Lost += c.acked - c.value
		t.Plain += c.plains
		t.PlainLost += c.plains - c.plain
	}
	return t
}

// String is for terminals.
func (t Totals) String() string {
	return fmt.Sprintf("%d fenced writes, %d lost; %d unfenced writes, %d lost", t.Fenced, t.Lost, t.Plain, t.PlainLost)
}

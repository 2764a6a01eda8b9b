package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Crowd is who clicks.
type Crowd struct {
	Users  int `json:"users"`
	Clicks int `json:"clicks"` // of each
	Stock  int `json:"stock"`
}

// Limits of a crowd.
const (
	maxUsers  = 1000
	maxClicks = 10
	maxStock  = 1000
)

func (c Crowd) valid() bool {
	in := func(n, most int) bool { return 1 <= n && n <= most }
	return in(c.Users, maxUsers) && in(c.Clicks, maxClicks) && in(c.Stock, maxStock)
}

// atOnce is how many clicks are under way in a lane.
const atOnce = 24

// click is one click of a crowd.
type click struct {
	user string
	at   int // instance
}

// Send opens a new sale in each lane, and has the crowd click. The seed decides who clicks
// when, and where: it is the same in all lanes.
func (s *Stage) Send(c Crowd, seed int64) error {
	if !c.valid() {
		return ErrInvalid
	}
	return s.begin("crowd", func(ctx context.Context) {
		s.mu.Lock()
		s.run = run{s.run.N + 1, seed, c}
		n := s.run.N
		s.scene = nil
		s.mu.Unlock()
		s.board.record()
		s.say("crowd", c.Users, c.Clicks, c.Stock)
		clicks := c.schedule(n, seed)
		s.everywhere(func(l *lane) { l.receive(ctx, c.Stock, clicks) })
		if ctx.Err() == nil {
			s.say("crowd done", len(clicks))
		}
	})
}

// schedule is the clicks in their order: those of a user come together, each to another
// instance, as those of an impatient finger do behind a balancer.
func (c Crowd) schedule(n int, seed int64) []click {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	clicks := make([]click, 0, c.Users*c.Clicks)
	for _, user := range random.Perm(c.Users) {
		first := random.IntN(instances)
		for k := range c.Clicks {
			clicks = append(clicks, click{fmt.Sprintf("%d-%d", n, user), first + k})
		}
	}
	return clicks
}

// receive opens a sale and takes the clicks.
func (l *lane) receive(ctx context.Context, stock int, clicks []click) {
	l.tally.reset()
	if err := l.book.open(ctx, stock); err != nil {
		l.stage.say("failed", l.id, "open")
		return
	}
	next := make(chan click)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for c := range next {
				l.click(ctx, c)
			}
		})
	}
	defer workers.Wait()
	defer close(next)
	for _, c := range clicks {
		select {
		case next <- c:
		case <-ctx.Done():
			return
		}
	}
}

// click orders, from another instance if one doesn't answer.
func (l *lane) click(ctx context.Context, c click) {
	for k := range instances {
		if l.order(ctx, l.at(c.at+k), c.user, func() { rest(ctx, thinking) }) != noAnswer {
			return
		}
	}
}

// rest waits, but no longer than ctx lasts.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package integration_test

import (
	"sync"
	"time"
)

// slack is what the machine may add to a time that began then: a second, and as
// much as it has kept this process from running since.
func slack(began time.Time) time.Duration { return time.Second + lateness.since(began) }

// lateness is how late a goroutine of the tests' own was that has nothing to do.
var lateness stalls

type stalls struct {
	mu  sync.Mutex
	all []stall
}

type stall struct {
	end  time.Time
	late time.Duration
}

// watch looks until the process ends.
func (s *stalls) watch() {
	const period = 10 * time.Millisecond
	for last, ticker := time.Now(), time.NewTicker(period); ; {
		<-ticker.C
		now := time.Now() // the tick may be older
		if late := now.Sub(last) - period; late > period {
			s.mu.Lock()
			s.all = append(s.all, stall{now, late})
			s.mu.Unlock()
		}
		last = now
	}
}

func (s *stalls) since(began time.Time) (late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.end.After(began) {
			late += one.late
		}
	}
	return late
}

package load

import (
	"errors"
	"sync/atomic"
	"time"
)

// downTime is how long a target is passed over after it gave no answer.
const downTime = time.Second

// targets spreads clicks over instances and passes over the ones that are down.
type targets struct {
	list  []*target
	epoch time.Time
}

type target struct {
	client
	url       string
	downUntil atomic.Int64 // since the epoch
	failures  atomic.Int64
}

func newTargets(urls []string, connections int) (*targets, error) {
	t := &targets{epoch: time.Now()}
	for _, url := range urls {
		c, err := newClient(url, connections)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.list = append(t.list, &target{client: c, url: url})
	}
	return t, nil
}

func (t *targets) close() error {
	var errs []error
	for _, target := range t.list {
		errs = append(errs, target.client.close())
	}
	return errors.Join(errs...)
}

// pick returns the nth target, or the next that is up. If none is, it returns
// the nth: somebody has to find out when it is back.
func (t *targets) pick(n int) *target {
	now := int64(time.Since(t.epoch))
	for i := range t.list {
		candidate := t.list[(n+i)%len(t.list)]
		if candidate.downUntil.Load() <= now {
			return candidate
		}
	}
	return t.list[n%len(t.list)]
}

// failed marks a target as down for a while.
func (t *targets) failed(which *target) {
	which.failures.Add(1)
	which.downUntil.Store(int64(time.Since(t.epoch) + downTime))
}

// failures counts the requests that got no answer, by target.
func (t *targets) failures() map[string]int64 {
	counts := make(map[string]int64)
	for _, target := range t.list {
		if n := target.failures.Load(); n > 0 {
			counts[target.url] += n
		}
	}
	return counts
}

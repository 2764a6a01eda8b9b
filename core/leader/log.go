package leader

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// logEvery is how often a failure that goes on is logged.
const logEvery = 30 * time.Second

// logging are hooks that log to slog.Default. A failed attempt is logged when it is the first
// of its class, and every 30 s as long as it is repeated. No line has the key.
func logging() Hooks {
	failures := &failures{}
	return Hooks{
		Elected: func(name string, term uint64) {
			failures.end()
			slog.Info("leader: elected", "name", name, "term", term)
		},
		Resigned: func(name string, term uint64, err error) {
			slog.Info("leader: resigned", "name", name, "term", term, "error", err)
		},
		Lost: func(name string, term uint64, cause error) {
			slog.Warn("leader: the term is lost", "name", name, "term", term, "error", cause)
		},
		Failed: func(name string, err error) {
			if class := cmp.Or(lock.ClassOf(err), "busy"); failures.isNew(class) {
				slog.Warn("leader: an attempt to be elected failed, and is made again", "name", name, "cause", class)
			}
		},
	}
}

// failures are the attempts that have failed since the last term.
type failures struct {
	mu    sync.Mutex
	class string
	until time.Time
}

func (f *failures) isNew(class string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if class == f.class && now.Before(f.until) {
		return false
	}
	f.class, f.until = class, now.Add(logEvery)
	return true
}

func (f *failures) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until = time.Time{}
}

package rulewatch

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

// settle is for how long a file must stay as it is before it is read: editors and
// shells write in several steps.
const settle = 100 * time.Millisecond

// Watcher follows one file. It has one goroutine, from [Start] to [Watcher.Close].
type Watcher struct {
	path    string
	apply   func(*rule.Set) error
	options options
	folders *folders

	closing chan struct{}
	close   sync.Once
	running sync.WaitGroup

	// What follows is the goroutine's own.

	seen    version   // of the file, when it was read last
	pending version   // that differs from it, and may still change
	rules   *rule.Set // that were applied last, nil before the first
	failure string    // of the last version that could not be used, empty if it could
}

// Start reads the file and follows it until [Watcher.Close]. It calls apply with
// the rules of every version that is valid: with the first before it returns, so
// that no change is missed between loading the file and following it; later, on
// the watcher's goroutine, with rules that differ from the ones before. An error of
// apply means that the rules before stay in force. apply must not call Close.
//
// A file that is wrong or missing, now or later, is logged and passed to
// [WithOnError]; the watcher goes on, and applies the file when it is good.
func Start(path string, apply func(*rule.Set) error, opts ...Option) *Watcher {
	w := &Watcher{path: path, apply: apply, options: newOptions(opts), closing: make(chan struct{})}
	w.folders = w.open()
	w.folders.follow(path)
	w.look(versionOf(path))
	w.running.Go(w.run)
	return w
}

// Close stops following, and returns when apply no longer runs. A second call
// does nothing.
func (w *Watcher) Close() {
	w.close.Do(func() { close(w.closing) })
	w.running.Wait()
}

// open subscribes to changes of the file system. Polling does without.
func (w *Watcher) open() *folders {
	if w.options.silent {
		return &folders{}
	}
	f, err := openFolders()
	if err != nil {
		w.options.log.Warn("lock rules: the file system does not tell of changes, the file is looked at from time to time",
			"file", w.path, "every", w.options.poll, "error", err)
	}
	return f
}

func (w *Watcher) run() {
	defer w.folders.close()
	poll := time.NewTicker(w.options.poll)
	defer poll.Stop()
	settled := time.NewTimer(settle)
	defer settled.Stop()
	for {
		select {
		case <-w.closing:
			return
		case <-settled.C:
			if now := versionOf(w.path); !now.same(w.pending) {
				w.pending = now
				settled.Reset(settle)
			} else if !now.same(w.seen) {
				w.look(now)
			}
			continue
		case <-w.folders.events:
		case err := <-w.folders.errors:
			w.options.log.Debug("lock rules: changes may have been missed", "file", w.path, "error", err)
		case <-poll.C:
		}
		w.folders.follow(w.path)
		if now := versionOf(w.path); !now.same(w.seen) && !now.same(w.pending) {
			w.pending = now
			settled.Reset(settle)
		}
	}
}

// look reads the file, which is of that version or of a later one.
func (w *Watcher) look(now version) {
	w.seen, w.pending = now, now
	set, err := rulefile.Load(w.path)
	if err != nil && !errors.Is(err, rule.ErrInvalid) {
		w.seen, w.pending = version{}, version{} // it was not read, so try again
	}
	if err == nil {
		if w.rules != nil && w.failure == "" && reflect.DeepEqual(set.Rules(), w.rules.Rules()) {
			w.options.log.Debug("lock rules are the same as before", "file", w.path)
			return
		}
		err = set.Locate(w.rules, w.apply(set))
	}
	if err != nil {
		w.refuse(err)
		return
	}
	w.rules, w.failure = set, ""
	w.options.log.Info("lock rules are in force", "file", w.path, "rules", len(set.All()))
}

// refuse reports a version that can't be used, unless it was reported before.
func (w *Watcher) refuse(err error) {
	if w.failure == err.Error() {
		w.options.log.Debug("lock rules: the file still cannot be used", "file", w.path)
		return
	}
	w.failure = err.Error()
	w.options.log.Error("lock rules stay as they were: the file cannot be used", "file", w.path, "error", err)
	w.options.onError(err)
}

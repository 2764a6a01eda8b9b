package rulewatch

import (
	"reflect"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

// settle is for how long a file must stay as it is before it counts: editors and
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

	seen    version   // that was applied or refused last
	pending version   // of the last look; if it differs from seen, it may still change
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
// [WithOnError]; the watcher goes on, and applies the file when it is good. A nil option
// makes Start panic.
func Start(path string, apply func(*rule.Set) error, opts ...Option) *Watcher {
	w := &Watcher{path: path, apply: apply, options: newOptions(opts), closing: make(chan struct{})}
	w.folders = w.open()
	w.folders.follow(path)
	w.take(versionOf(path))
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

// run looks at the file a moment after an event, however many there are meanwhile: most
// are about other files of the folder.
func (w *Watcher) run() {
	defer w.folders.close()
	poll := time.NewTicker(w.options.poll)
	defer poll.Stop()
	var settled <-chan time.Time // nil: nothing has happened since the last look
	for {
		select {
		case <-w.closing:
			return
		case <-settled:
			settled = nil
			if !w.look() {
				continue
			}
		case <-w.folders.events:
		case err := <-w.folders.errors:
			w.options.log.Debug("lock rules: changes may have been missed", "file", w.path, "error", err)
		case <-poll.C:
		}
		if settled == nil {
			settled = time.After(settle)
		}
	}
}

// look takes the version of the file that two looks in a row have found. It reports
// whether there is a new one that a second look must confirm.
func (w *Watcher) look() (unconfirmed bool) {
	w.folders.follow(w.path)
	before := w.pending
	w.pending = versionOf(w.path)
	switch {
	case w.pending.same(w.seen):
		return false
	case w.pending.same(before):
		w.take(w.pending)
		return false
	}
	return true
}

// take applies a version of the file, or refuses it.
func (w *Watcher) take(v version) {
	w.seen, w.pending = v, v
	set, err := w.parse(v)
	if err == nil {
		if w.rules != nil && w.failure == "" && reflect.DeepEqual(set.Rules(), w.rules.Rules()) {
			w.rules = set // they may be in other lines
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

func (w *Watcher) parse(v version) (*rule.Set, error) {
	if v.err != nil {
		return nil, v.err
	}
	return rulefile.ParseFile(w.path, []byte(v.text))
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

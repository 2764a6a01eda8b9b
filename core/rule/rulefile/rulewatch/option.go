package rulewatch

import (
	"log/slog"
	"time"
)

// DefaultPoll is how often the file is checked in case no event announced a change.
const DefaultPoll = 5 * time.Second

// Option is a setting of [Start].
type Option func(*options)

type options struct {
	log     *slog.Logger
	onError func(error)
	poll    time.Duration
	silent  bool // don't subscribe to events of the file system
}

func newOptions(opts []Option) options {
	o := options{log: slog.Default(), onError: func(error) {}, poll: DefaultPoll}
	for _, apply := range opts {
		if apply == nil {
			panic("rulewatch.Start: an option is nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		apply(&o)
	}
	return o
}

// WithLogger says where new rules, and files that can't be used, are logged.
// Default [slog.Default].
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log != nil {
			o.log = log
		}
	}
}

// WithOnError has f called with whatever is logged as an error: why a version of
// the file isn't used ([rule.Faults], an error of the file system, or that of the
// func given to [Start]). The same error is reported once, until there is another
// or the file is good again. f runs on the watcher's goroutine, and
// must not call [Watcher.Close], which waits for it.
func WithOnError(f func(error)) Option {
	return func(o *options) {
		if f != nil {
			o.onError = f
		}
	}
}

// WithPoll sets how often the file is checked in case no event announced a
// change. The default, also for 0 and less, is [DefaultPoll].
func WithPoll(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.poll = d
		}
	}
}

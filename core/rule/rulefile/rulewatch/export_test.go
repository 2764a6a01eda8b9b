package rulewatch

// WithoutEvents makes a watcher rely on polling alone.
func WithoutEvents() Option { return func(o *options) { o.silent = true } }

package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// logEvery is how often an error of one kind is logged at most: an outage refuses
// thousands of calls a second, and each says the same.
const logEvery = time.Second

// sampled logs errors, at most one of each kind in [logEvery].
type sampled struct {
	log *slog.Logger // nil: slog.Default, as it is when the line is written

	mu    sync.Mutex
	kinds [len(kinds)]struct {
		next       time.Time
		suppressed int
	}
}

func newSampled(log *slog.Logger) *sampled { return &sampled{log: log} }

func (s *sampled) refused(ctx context.Context, e *Error) {
	if !e.Kind.Info().Operator {
		return
	}
	suppressed, ok := s.take(e.Kind)
	if !ok {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", e.Operation), slog.String("lock", e.Name), slog.String("kind", e.Kind.String()),
	}
	if class := lock.ClassOf(e.Err); class != "" {
		attrs = append(attrs, slog.String("cause", class))
	}
	if reason := e.reason(); reason != "" {
		attrs = append(attrs, slog.String("reason", reason))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	s.logger().LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "lock: "+e.Kind.String(), attrs...)
}

// invalid logs why the guard lets nobody in.
func (s *sampled) invalid(err error) {
	s.logger().Error("lock: the guard is not valid and lets nobody in", slog.Any("error", err))
}

// logger is where lines go now.
func (s *sampled) logger() *slog.Logger {
	if s.log == nil {
		return slog.Default()
	}
	return s.log
}

// take reports whether an error of the kind may be logged now, and how many earlier
// ones weren't.
func (s *sampled) take(k Kind) (suppressed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sample := &s.kinds[k]
	now := time.Now()
	if now.Before(sample.next) {
		sample.suppressed++
		return 0, false
	}
	suppressed, sample.suppressed = sample.suppressed, 0
	sample.next = now.Add(logEvery)
	return suppressed, true
}

// Package quiet keeps a log readable in an outage.
package quiet

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// every is how far apart two lines of a kind are at least. A kind is a level and a message.
const every = time.Second

// Handler writes one line of a kind a second. The next one says how many were left out.
type Handler struct {
	next  slog.Handler
	kinds *kinds
}

// NewHandler returns a Handler in front of next.
func NewHandler(next slog.Handler) *Handler {
	return &Handler{next, &kinds{seen: make(map[kind]*sample)}}
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := h.kinds.take(kind{r.Level, r.Message}, time.Now())
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.kinds}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.kinds}
}

// kind is what lines have in common. Messages are constants of the program, so there are
// few of them.
type kind struct {
	level   slog.Level
	message string
}

type sample struct {
	next       time.Time
	suppressed int
}

type kinds struct {
	mu   sync.Mutex
	seen map[kind]*sample
}

// take reports whether a line may be written now, and how many of its kind weren't.
func (k *kinds) take(which kind, now time.Time) (suppressed int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.seen[which]
	if s == nil {
		s = new(sample)
		k.seen[which] = s
	}
	if now.Before(s.next) {
		s.suppressed++
		return 0, false
	}
	suppressed, s.suppressed = s.suppressed, 0
	s.next = now.Add(every)
	return suppressed, true
}

package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// logger writes lines, not too many of each kind.
type logger struct {
	*slog.Logger
	losses, releases, renewals, circuits, keys limit
}

func newLogger(log *slog.Logger) *logger { return &logger{Logger: log} }

// logged is what lines say of a lock. It is made only for lines that are
// written.
type logged func() []slog.Attr

func (t *Telemetry) logged(e lock.Event) logged {
	return func() []slog.Attr {
		attributes := t.attributes(e)
		attrs := make([]slog.Attr, len(attributes), len(attributes)+3)
		for i, a := range attributes {
			attrs[i] = slog.String(string(a.Key), a.Value.AsString())
		}
		return attrs
	}
}

func (l *logger) lost(e lock.LossEvent, about logged) {
	l.write(e.Context, slog.LevelWarn, &l.losses, "lock is lost", func() []slog.Attr {
		return append(about(), slog.String(string(reasonKey), e.Reason.String()), slog.Duration("held", e.Held))
	})
}

// circuit tells of the store, and so of a part of it by the address. What the
// client says of a failure may hold more than that.
func (l *logger) circuit(e lock.CircuitEvent) {
	level, message := slog.LevelInfo, "lock store answers again"
	if e.Open {
		level, message = slog.LevelWarn, "lock store does not answer, acquisitions are refused until it does"
	}
	l.write(context.Background(), level, &l.circuits, message, func() []slog.Attr {
		if e.Part == "" {
			return nil
		}
		return []slog.Attr{slog.String("part", e.Part)}
	})
}

func (l *logger) unconfirmed(about logged) {
	l.write(context.Background(), slog.LevelWarn, &l.releases, "lock release is not confirmed, it goes on in the background", about)
}

func (l *logger) renewalFailed(about logged) {
	l.write(context.Background(), slog.LevelInfo, &l.renewals, "lock renewal failed, it is tried again", about)
}

func (l *logger) keyFailed(ctx context.Context, name, reason string) {
	l.write(ctx, slog.LevelDebug, &l.keys, "lock key cannot be made", func() []slog.Attr {
		return []slog.Attr{slog.String(string(templateKey), shown(name)), slog.String(string(reasonKey), reason)}
	})
}

func (l *logger) write(ctx context.Context, level slog.Level, limit *limit, message string, about logged) {
	if !l.Enabled(ctx, level) {
		return
	}
	suppressed, ok := limit.allow(time.Now())
	if !ok {
		return
	}
	attrs := about()
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	l.LogAttrs(ctx, level, message, attrs...)
}

const (
	linesPerWindow = 10
	logWindow      = 10 * time.Second
)

// limit lets a number of lines through in a window of time.
type limit struct {
	mu         sync.Mutex
	start      time.Time
	lines      int
	suppressed int
}

// allow says whether a line may be written, and how many before it were not.
func (l *limit) allow(now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.start) >= logWindow {
		l.start, l.lines = now, 0
	}
	if l.lines == linesPerWindow {
		l.suppressed++
		return 0, false
	}
	l.lines++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// logger writes lines, at most one of each kind in [logEvery]. Changes of a
// circuit are rare, and the last one counts: all of them are written.
type logger struct {
	*slog.Logger

	losses, releases, renewals, keys limit
}

func newLogger(log *slog.Logger) *logger { return &logger{Logger: log} }

// logged is what lines say of a lock. It is made only for lines that are
// written.
type logged func() []slog.Attr

func (t *Telemetry) logged(e lock.Event, err error) logged {
	return func() []slog.Attr {
		attributes := t.attributes(e)
		attrs := make([]slog.Attr, len(attributes), len(attributes)+4)
		for i, a := range attributes {
			attrs[i] = slog.String(string(a.Key), a.Value.AsString())
		}
		return append(attrs, cause(err)...)
	}
}

// cause returns the class of a store's error, because its message may contain
// anything.
func cause(err error) []slog.Attr {
	if class := lock.ClassOf(err); class != "" {
		return []slog.Attr{slog.String("cause", class)}
	}
	return nil
}

func (l *logger) lost(e lock.LossEvent, about logged) {
	l.write(e.Context, slog.LevelWarn, &l.losses, "lock is lost", func() []slog.Attr {
		attrs := append(about(), slog.String(string(reasonKey), e.Reason.String()), slog.Duration("held", e.Held))
		if e.Holder != (lock.Identity{}) {
			attrs = append(attrs, slog.String("service", e.Holder.Service), slog.String("host", e.Holder.Host), slog.Int("pid", e.Holder.PID))
		}
		return attrs
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

// logEvery is how often a line of one kind is written at most: when a store is
// away, thousands of locks say the same.
const logEvery = time.Second

// limit lets a line through at once, and then one in [logEvery].
type limit struct {
	mu         sync.Mutex
	next       time.Time
	suppressed int
}

// allow reports whether a line may be written, and how many earlier ones weren't.
func (l *limit) allow(now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	l.next = now.Add(logEvery)
	return suppressed, true
}

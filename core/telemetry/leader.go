package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/metric"
)

// Elected records the term of a leader that was elected. With [Telemetry.Resigned]
// and [Telemetry.TermLost] it is for the hooks of package leader.
func (t *Telemetry) Elected(name string, term uint64) {
	t.leads(name, term)
	t.log.leader(slog.LevelInfo, "elected as leader", name, term)
}

// Resigned records that a leader has resigned. It ignores the error of the leader's
// func, which may contain anything.
func (t *Telemetry) Resigned(name string, term uint64, _ error) {
	t.leads(name, 0)
	t.log.leader(slog.LevelInfo, "resigned as leader", name, term)
}

// TermLost records that a leader has lost its term. The locker's hooks record why
// the lock was lost.
func (t *Telemetry) TermLost(name string, term uint64, _ error) {
	t.leads(name, 0)
	t.log.leader(slog.LevelWarn, "lost the term as leader", name, term)
}

func (t *Telemetry) leads(name string, term uint64) {
	t.terms.Record(context.Background(), int64(term), metric.WithAttributes(t.names.of(name).template))
}

func (l *logger) leader(level slog.Level, message, name string, term uint64) {
	l.LogAttrs(context.Background(), level, message, slog.String(string(templateKey), shown(name)), slog.Uint64("term", term))
}

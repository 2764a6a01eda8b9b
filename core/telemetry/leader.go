package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/metric"
)

// Elected records the term of a leader that was elected. With [Telemetry.Resigned]
// and [Telemetry.TermLost] it is for the hooks of package leader. A process that leads
// twice under one name shows the later term.
func (t *Telemetry) Elected(name string, term uint64) {
	t.leads(name, term)
	t.log.leader(slog.LevelInfo, "elected as leader", name, term)
}

// Resigned records that a leader has resigned. It ignores the error of the leader's
// func, which may contain anything.
func (t *Telemetry) Resigned(name string, term uint64, _ error) {
	t.leadsNoMore(name, term)
	t.log.leader(slog.LevelInfo, "resigned as leader", name, term)
}

// TermLost records that a leader has lost its term. The locker's hooks record why
// the lock was lost.
func (t *Telemetry) TermLost(name string, term uint64, _ error) {
	t.leadsNoMore(name, term)
	t.log.leader(slog.LevelWarn, "lost the term as leader", name, term)
}

func (t *Telemetry) leads(name string, term uint64) {
	t.leading.Lock()
	defer t.leading.Unlock()
	t.recordTerm(t.names.of(name), term)
}

// leadsNoMore records the end of a term, unless the series shows another one.
func (t *Telemetry) leadsNoMore(name string, term uint64) {
	t.leading.Lock()
	defer t.leading.Unlock()
	if s := t.names.of(name); s.term == term {
		t.recordTerm(s, 0)
	}
}

// recordTerm sets what the series shows; leading is held.
func (t *Telemetry) recordTerm(s *series, term uint64) {
	s.term = term
	t.terms.Record(context.Background(), int64(term), metric.WithAttributes(s.template))
}

func (l *logger) leader(level slog.Level, message, name string, term uint64) {
	l.LogAttrs(context.Background(), level, message, slog.String(string(templateKey), shown(name)), slog.Uint64("term", term))
}

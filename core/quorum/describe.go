package quorum

import (
	"fmt"
	"log/slog"
	"strconv"
)

// LogValue describes the store in a log: how many nodes it has, and what each says of
// itself, or its type.
func (q *Store) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", "quorum"), slog.Int("nodes", len(q.nodes))}
	for i, n := range q.nodes {
		name := strconv.Itoa(i + 1)
		if described, ok := n.store.(slog.LogValuer); ok {
			attrs = append(attrs, slog.Any(name, described))
		} else {
			attrs = append(attrs, slog.String(name, fmt.Sprintf("%T", n.store)))
		}
	}
	return slog.GroupValue(attrs...)
}

package memstore

import "log/slog"

// LogValue describes the store in a log.
func (*Store) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", "memory"), slog.String("topology", "this process alone"))
}

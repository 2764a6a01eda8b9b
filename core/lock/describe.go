package lock

import "log/slog"

// ID returns the id of the locker. The ids of its owners in the store begin with
// it, so that operators can tell whose hold they see. Don't show it to clients.
func (l *Locker) ID() string { return l.client }

// LogValue describes the locker in a log: its id, watchdog and call time-out.
func (l *Locker) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", l.client),
		slog.Duration("watchdog", l.defaults.watchdog),
		slog.Duration("callTimeout", l.defaults.callTimeout),
	)
}

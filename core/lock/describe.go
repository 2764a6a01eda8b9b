package lock

import "log/slog"

// ID returns the id of the locker. The ids of its owners in the store begin with
// it, so that operators can tell whose hold they see. Don't show it to clients.
func (l *Locker) ID() string { return l.client }

// Identity returns the locker's identity, zero without [WithIdentity].
func (l *Locker) Identity() Identity {
	if l.defaults.identity == nil {
		return Identity{}
	}
	return *l.defaults.identity
}

// LogValue describes the locker in a log: its id, who it is, watchdog and call time-out.
func (l *Locker) LogValue() slog.Value {
	var who []slog.Attr
	if id := l.Identity(); id != (Identity{}) {
		who = []slog.Attr{slog.String("service", id.Service), slog.String("host", id.Host), slog.Int("pid", id.PID)}
	}
	return slog.GroupValue(append([]slog.Attr{slog.String("id", l.client)}, append(who,
		slog.Duration("watchdog", l.defaults.watchdog),
		slog.Duration("callTimeout", l.defaults.callTimeout),
	)...)...)
}

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Registry = (*Store)(nil)

// Register implements [lock.Registry] with a row of redlatch_lockers. It deletes those of
// others that have expired.
func (s *Store) Register(ctx context.Context, r lock.Registration, ttl time.Duration) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("%w: %w", lock.ErrInvalid, err)
	}
	if _, err := s.keys.affected(ctx, &s.keys.sql.register, []any{r.Locker, text, micros(ttl)}); err != nil {
		return err
	}
	_, err = s.keys.affected(ctx, &s.keys.sql.forget, nil)
	return err
}

// Unregister implements [lock.Registry].
func (s *Store) Unregister(ctx context.Context, locker string) error {
	_, err := s.keys.affected(ctx, &s.keys.sql.unregister, []any{locker})
	return err
}

// Registered implements [lock.Registry] with one statement.
func (s *Store) Registered(ctx context.Context, lockers []string) (map[string]lock.Registration, error) {
	wanted, err := json.Marshal(lockers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", lock.ErrInvalid, err)
	}
	known := make(map[string]lock.Registration)
	err = s.keys.query(ctx, &s.keys.sql.registered, []any{string(wanted)}, func(rows *sql.Rows) error {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return err
		}
		var r lock.Registration
		if json.Unmarshal(text, &r) == nil { // what is none is left out
			known[r.Locker] = r
		}
		return nil
	})
	return known, err
}

// Announced implements [lock.Registry] where notifications are heard: without
// [WithListener] it answers [lock.ErrUnsupported]. The listener has its connection until
// stop is called.
func (s *Store) Announced(ctx context.Context, heard func(locker, name string)) (stop func(), err error) {
	if s.keys.listener == nil {
		return nil, fmt.Errorf("%w: forced releases are announced by a listener", lock.ErrUnsupported)
	}
	return s.keys.hub.announced(ctx, heard)
}

// NameOf implements [lock.Registry]: the id of its row.
func (*Store) NameOf(key string) string { return hex.EncodeToString(id(key)) }

// announcee hears of forced releases.
type announcee struct{ heard func(locker, name string) }

// announced adds an announcee, and returns when the listener listens.
func (h *hub) announced(ctx context.Context, heard func(locker, name string)) (stop func(), err error) {
	a := &announcee{heard}
	h.mu.Lock()
	h.announcees[a] = struct{}{}
	h.start() //nolint:contextcheck // the hub works for later calls, too
	h.mu.Unlock()
	stop = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.announcees, a)
	}
	for {
		h.mu.Lock()
		listening, turned := h.listening, h.turned
		h.mu.Unlock()
		if listening {
			return stop, nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			stop()
			return nil, notSent(ctx)
		}
	}
}

// maxAnnounced is how many lockers one notification names.
const maxAnnounced = 100

// announcement is the notification of a forced release: the id of the row, and the lockers
// that lose a hold. If they are many, nobody is named, which means everybody.
func announcement(key string, e *entry.Entry) string {
	var lockers []string
	for _, h := range e.Holds {
		if !h.Kept {
			lockers = append(lockers, lock.LockerOf(h.Owner))
		}
	}
	slices.Sort(lockers)
	if lockers = slices.Compact(lockers); len(lockers) > maxAnnounced {
		lockers = nil
	}
	return hex.EncodeToString(id(key)) + " ! " + strings.Join(lockers, " ")
}

// announce tells who listens of a forced release; hub.mu is held.
func (h *hub) announce(name, lockers string) {
	for locker := range strings.SplitSeq(lockers, " ") {
		for a := range h.announcees {
			a.heard(locker, name)
		}
	}
}

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// maxOwner is the longest owner, in bytes, as the column has it.
const maxOwner = 128

// Store is a [lock.Store] in a database. It is safe for concurrent use, and needs no
// Close: it starts goroutines only while somebody waits for a key. Use [New].
type Store struct {
	lock.Store

	keys *keys
}

// keys are the rows of a database, with calls that block.
type keys struct {
	db       *sql.DB
	dialect  Dialect
	sql      *statements
	log      *slog.Logger
	listener Listener
	turns    turns
	hub      *hub
	inserts  inserts
	parting  parting
}

// Option is a setting of [New].
type Option func(*keys)

// WithListener makes waiters hear of releases by notifications of PostgreSQL, instead of
// by polling. Other databases have none: [New] fails.
func WithListener(l Listener) Option { return func(k *keys) { k.listener = l } }

// WithLogger sets where warnings go: about a listener that doesn't work. Default
// [slog.Default].
func WithLogger(log *slog.Logger) Option { return func(k *keys) { k.log = log } }

// New returns a store over the tables of db: see [Migrations] and [Store.Check]. It does
// no I/O. Give it a pool of its own of 4 to 8 connections: if callers that wait for a
// lock have all connections, nobody can release one. The error wraps [lock.ErrInvalid]:
// db or the logger is nil, the dialect is unknown, or has no notifications.
func New(db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	k := &keys{db: db, dialect: d, log: slog.Default()}
	for _, apply := range opts {
		apply(k)
	}
	switch {
	case db == nil:
		return nil, fmt.Errorf("sqlstore: %w: db is nil", lock.ErrInvalid)
	case !d.Valid():
		return nil, fmt.Errorf("sqlstore: %w: unknown dialect", lock.ErrInvalid)
	case k.log == nil:
		return nil, fmt.Errorf("sqlstore: %w: WithLogger(nil)", lock.ErrInvalid)
	case k.listener != nil && d != PostgreSQL:
		return nil, fmt.Errorf("sqlstore: %w: WithListener is for PostgreSQL", lock.ErrInvalid)
	}
	k.sql = statementsOf(d)
	k.hub = newHub(k)
	return &Store{Store: lock.Async(k), keys: k}, nil
}

// Traits implements [lock.Store].
func (*keys) Traits() lock.Traits { return lock.Traits{Spaced: true} }

// twin is the other mode in which the owner of a claim may have its hold.
func twin(m lock.Mode) lock.Mode {
	switch m {
	case lock.Exclusive:
		return lock.Fair
	case lock.Fair:
		return lock.Exclusive
	case lock.Read:
		return lock.Write
	}
	return m
}

// Acquire implements [lock.BlockingStore].
func (k *keys) Acquire(ctx context.Context, c lock.Claim) (fence uint64, err error) {
	if err := check(&c); err != nil {
		return 0, err
	}
	if err := entry.Check(&c); err != nil {
		return 0, err
	}
	var found *row
	if k.sql.acquire.text != "" && c.Mode != lock.Semaphore && !placesOthers(&c) {
		fence, found, err = k.acquire(ctx, &c)
		if err != nil || fence > 0 {
			return fence, err
		}
	}
	err = k.change(ctx, c.Key, found, func(e *entry.Entry, r *row) (how writing, err error) {
		fence, err = e.Acquire(&c, at(r.now), r.next())
		return how, err
	})
	if err != nil {
		return 0, err // the grant may not have been written
	}
	return fence, nil
}

// placesOthers says whether a grant of the claim takes places in the queue, too.
func placesOthers(c *lock.Claim) bool {
	return len(c.Places) > 1 || len(c.Places) == 1 && c.Places[0] != c.Owner
}

// acquire is one statement for a key without a document. It returns the fence, or the
// row if that must be looked at, or nil if it must be read.
func (k *keys) acquire(ctx context.Context, c *lock.Claim) (fence uint64, found *row, err error) {
	args := []any{id(c.Key), []byte(c.Key), int64(c.Mode), c.Owner, micros(c.TTL), int64(twin(c.Mode))}
	if k.dialect == MySQL {
		return k.acquireByID(ctx, c, args)
	}
	var granted, version int64
	r := new(row)
	err = k.query(ctx, &k.sql.acquire, args, func(rows *sql.Rows) error {
		return rows.Scan(&granted, &version, &r.now, &r.floor, &r.version, &r.expires, &r.fence, &r.mode, &r.owner, &r.more)
	})
	switch {
	case k.isRowLocked(err):
		return 0, nil, errInTransaction
	case err != nil:
		return 0, nil, err
	case granted > 0:
		if granted == version*lock.FenceStep { // the first of its row
			k.inserts.one(ctx, k)
		}
		return uint64(granted), nil, nil
	}
	return 0, r, nil
}

// errInTransaction: the hold has expired, but a transaction is about to release it, which
// may still be committed.
var errInTransaction = &lock.BusyError{TTL: time.Second}

// acquireByID is acquire where the answer is the insert id.
func (k *keys) acquireByID(ctx context.Context, c *lock.Claim, args []any) (fence uint64, found *row, err error) {
	var answer, changed int64
	err = k.exec(ctx, &k.sql.acquire, args, func(result sql.Result) (err error) {
		if answer, err = result.LastInsertId(); err == nil {
			changed, err = result.RowsAffected()
		}
		return err
	})
	switch {
	case k.isRowLocked(err):
		return 0, nil, errInTransaction
	case err != nil:
		return 0, nil, err
	case answer > 1:
		if changed == 1 { // an update counts twice
			k.inserts.one(ctx, k)
		}
		return uint64(answer), nil, nil
	case answer < 0 && (c.Mode == lock.Exclusive || c.Mode == lock.Write):
		return 0, nil, &lock.BusyError{TTL: at(-answer)}
	}
	return 0, nil, nil
}

// Release implements [lock.BlockingStore].
func (k *keys) Release(ctx context.Context, c lock.Claim) error {
	if err := check(&c); err != nil {
		return err
	}
	if c.Mode != lock.Semaphore && time.Until(c.Keep) <= 0 {
		wake := entry.Wake{All: true}
		args := []any{id(c.Key), c.Owner, int64(c.Mode), int64(twin(c.Mode)), payload(c.Key, wake)}
		n, err := k.affected(ctx, &k.sql.release, args)
		if err != nil {
			return err
		}
		if n > 0 {
			k.parting.end(c.Owner)
			k.hub.deliver(c.Key, wake)
			return nil
		}
	}
	// The statement saw the row as it was in the beginning: the hold may have moved into
	// a document since.
	err := k.change(ctx, c.Key, nil, func(e *entry.Entry, r *row) (how writing, err error) {
		keep := at(r.now) + c.Keep.Sub(r.asked)
		return writing{relaxed: keep <= at(r.now)}, e.Release(&c, at(r.now), keep)
	})
	if gone := errors.Is(err, lock.ErrNotHeld); (gone || err == nil) && k.parting.end(c.Owner) && gone {
		return nil // its transaction has released it
	}
	return err
}

// Lower implements [lock.BlockingStore].
func (k *keys) Lower(ctx context.Context, c lock.Claim) error {
	if err := check(&c); err != nil {
		return err
	}
	if err := entry.Check(&c); err != nil {
		return err
	}
	return k.change(ctx, c.Key, nil, func(e *entry.Entry, r *row) (how writing, err error) {
		return how, e.Lower(&c, at(r.now))
	})
}

// Inspect implements [lock.Store].
func (k *keys) Inspect(ctx context.Context, key string) (lock.State, error) {
	r, err := k.read(ctx, key)
	if err != nil {
		return lock.State{}, err
	}
	e, err := r.entry()
	if err != nil {
		return lock.State{}, err
	}
	return e.State(at(r.now)), nil
}

// ForceRelease implements [lock.Store]. The queue of Fair waiters stays, and its first is
// woken.
func (k *keys) ForceRelease(ctx context.Context, key string) (freed bool, err error) {
	err = k.change(ctx, key, nil, func(e *entry.Entry, r *row) (how writing, err error) {
		if k.dialect == PostgreSQL {
			how.announce = announcement(key, e)
		}
		freed = e.Force(at(r.now))
		return how, nil
	})
	return freed, err
}

// Watch implements [lock.Store].
func (k *keys) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	if err := check(&c); err != nil {
		return nil, err
	}
	return k.hub.watch(ctx, &c, wake)
}

// LogValue describes the store in a log.
func (s *Store) LogValue() slog.Value {
	names := map[Dialect]string{PostgreSQL: "postgresql", MySQL: "mysql", SQLite: "sqlite"}
	wakeups := "polling"
	if s.keys.listener != nil {
		wakeups = "notifications"
	}
	return slog.GroupValue(slog.String("kind", names[s.keys.dialect]), slog.String("wake-ups", wakeups))
}

// check refuses what the columns can't hold.
func check(c *lock.Claim) error {
	switch {
	case !c.Mode.Valid():
		return fmt.Errorf("%w: sqlstore has no mode %s", lock.ErrUnsupported, c.Mode)
	case len(c.Key) > lock.MaxKeyBytes:
		return fmt.Errorf("%w: key has %d bytes, the limit is %d", lock.ErrInvalid, len(c.Key), lock.MaxKeyBytes)
	case len(c.Owner) > maxOwner, !utf8.ValidString(c.Owner), strings.ContainsRune(c.Owner, 0):
		return fmt.Errorf("%w: an owner is a string of at most %d bytes", lock.ErrInvalid, maxOwner)
	}
	return nil
}

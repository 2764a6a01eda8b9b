// Package peer puts lock libraries behind one interface, each with the settings
// that its own documentation recommends, so that one load can drive them all.
package peer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/internal/process"
)

// ErrBusy is what TryLock returns for a key that somebody else holds.
var ErrBusy = errors.New("peer: busy")

// Held is one lock that is held.
type Held interface {
	Unlock(ctx context.Context) error
}

// Reentrant is a lock whose holder may lock the same key again.
type Reentrant interface {
	Held
	// Holder is the context to lock with.
	Holder() context.Context
}

// Locker is one library, connected to one server. Its methods may be called
// concurrently.
type Locker interface {
	// Lock waits until it has key or ctx ends, as the library waits by default.
	Lock(ctx context.Context, key string) (Held, error)
	// TryLock makes one attempt: [ErrBusy] if somebody else holds key.
	TryLock(ctx context.Context, key string) (Held, error)
	// Keep is Lock with automatic renewal until Unlock. Libraries without
	// automatic renewal get a goroutine for each lock, as their users write it.
	Keep(ctx context.Context, key string) (Held, error)
	Close() error
}

// Settings of a Locker.
type Settings struct {
	// Addr is that of the server: the URL of a database, or the file of SQLite. Several of
	// Redis, with commas between them, are nodes of a cluster, which only redlatch takes.
	Addr string
	// Lease is how long a hold lasts unless it is renewed. A third of it is
	// the renewal interval.
	Lease time.Duration
}

// Counting is a locker that counts the statements that it sends to a database.
type Counting interface{ Statements() int64 }

// Peer is one entry of [All] or [Databases], or inMemory.
type Peer struct {
	Name string
	// Server starts a database, and returns its address. It is nil for peers on Redis.
	Server func(process.Host) string
	// prepare makes the tables in a new database, or is nil.
	prepare func(ctx context.Context, addr string) error
	// Settings are those of its Redis.
	Settings []string
	// Library is false for the floors, which are no libraries: they show what
	// the commands alone cost.
	Library bool
	// Ours is true for redlatch.
	Ours bool
	Open func(Settings) (Locker, error)
	// Sends are the commands that the library sends besides those in always.
	// Commands that run inside scripts aren't among them.
	Sends []string
}

// Names of peers.
const (
	Redlatch      = "redlatch"
	RedlatchFair  = "redlatch fair"
	RedlatchSETNX = "redlatch SETNX"
	// RedlatchNoHandoff releases each lock in Redis, also while callers of the process wait.
	RedlatchNoHandoff = "redlatch, no hand-off"
	RedlatchMemory    = "redlatch in memory"
	Redsync           = "redsync"
	Bsm               = "bsm/redislock"
	Rueidis1          = "rueidislock KM=1"
	Rueidis           = "rueidislock"
	Floor             = "floor"
	Pipelined         = "pipelined floor"

	OnPostgres = "redlatch on PostgreSQL"
	OnNotified = "redlatch on PostgreSQL, NOTIFY"
	OnMariaDB  = "redlatch on MariaDB"
	OnSQLite   = "redlatch on SQLite"
	OnFlushed  = "redlatch on Redis, flushed"
	Pglock     = "pglock"
	Session    = "advisory lock of a session"
	ForUpdate  = "SELECT FOR UPDATE"
)

// All lists the peers, whose lockers share the locks of a server.
var All = []Peer{
	{Name: Redlatch, Library: true, Ours: true, Open: openRedlatch()},
	{Name: RedlatchFair, Library: true, Ours: true, Open: openRedlatch(lock.WithMode(lock.Fair))},
	{Name: RedlatchNoHandoff, Library: true, Ours: true, Open: openRedlatch(lock.WithHandoff(0, 0))},
	{Name: RedlatchSETNX, Library: true, Ours: true, Open: openSETNX},
	{Name: Redsync, Library: true, Open: openRedsync, Sends: []string{"set"}},
	{Name: Bsm, Library: true, Open: openBsm},
	{Name: Rueidis1, Library: true, Open: openRueidis(1)},
	{Name: Rueidis, Library: true, Open: openRueidis(0)},
	{Name: Floor, Open: openFloor, Sends: []string{"set"}},
	{Name: Pipelined, Open: openPipelined, Sends: []string{"set"}},
}

// inMemory shows what the engine alone costs: each of its lockers has its own locks.
var inMemory = Peer{Name: RedlatchMemory, Library: true, Ours: true, Open: openMemory}

// always are the commands that a lock library may send at any time. Commands
// that set up a connection aren't counted: they are sent once.
var always = []string{
	"eval", "evalsha", "fcall", "subscribe", "unsubscribe", "psubscribe", "punsubscribe",
	"ssubscribe", "sunsubscribe", "wait",
}

// Counts reports whether command, as INFO commandstats spells it, is one that
// the peer itself sends, and not one of its scripts.
func (p Peer) Counts(command string) bool {
	return slices.Contains(always, command) || slices.Contains(p.Sends, command)
}

// Ours reports whether the peer of that name is redlatch.
func Ours(name string) bool {
	p, _ := Find(name)
	return p.Ours
}

// Find returns the peer of that name.
func Find(name string) (Peer, bool) {
	if name == inMemory.Name {
		return inMemory, true
	}
	all := slices.Concat(All, Databases)
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// newClient is a go-redis client as it is by default, but for what docs/operations.md
// advises: it looks at the deadlines of contexts. Here only redlatch sets any.
func newClient(s Settings) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
}

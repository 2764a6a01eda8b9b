package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// probePrefix begins the keys that [Store.Check] locks.
	probePrefix = "redlatch:check:"
	// probeTTL is how long such a key stays if the program ends in between.
	probeTTL = 10 * time.Second
	// probeKeep is the minimum hold that is tried.
	probeKeep = time.Second
	// probeKeys is how many keys are tried to find one on a certain master.
	probeKeys = 2000
)

// probe takes and releases a lock of each mode on the master at that address.
func (s *Store) probe(ctx context.Context, address string, modes []lock.Mode) error {
	for _, mode := range modes {
		key, found := s.probeKey(address)
		if !found {
			continue // it has no slots
		}
		if err := s.probeMode(ctx, key, mode); err != nil {
			return unreachable(address, fmt.Errorf("a lock in mode %s: %w%s", mode, err, cure(err)))
		}
	}
	return nil
}

// probeKey is a new key that the master at that address has.
func (s *Store) probeKey(address string) (key string, found bool) {
	key = probePrefix + rand.Text()
	if s.cluster == nil {
		return key, true
	}
	for i := range probeKeys {
		if at := key + strconv.Itoa(i); s.senderOf(s.name(at)).address() == address {
			return at, true
		}
	}
	return "", false
}

// probeMode takes a lock of the mode for an owner, and then for another, which came
// while the first one had it. The second one is released under a minimum hold, which
// runs other commands than a plain release does.
func (s *Store) probeMode(ctx context.Context, key string, mode lock.Mode) error {
	first := lock.Claim{Key: key, Owner: rand.Text() + ":1", Mode: mode, TTL: probeTTL}
	if mode == lock.Semaphore {
		first.Permits, first.Size = 1, 2 // the grant wakes others, as it leaves a permit
	}
	second := first
	second.Permits = first.Size
	second.Owner = rand.Text() + ":1"
	second.Places = []string{second.Owner}
	s.probeWatch(ctx, first)
	err := s.probeHold(ctx, first, second)
	if err == nil {
		second.Keep = time.Now().Add(probeKeep)
		err = s.probeHold(ctx, second, second)
	}
	if errors.Is(err, ErrQuarantine) {
		return nil // it grants as soon as it may
	}
	return err
}

// probeHold takes a lock, renews it, and releases it when next has called for it; that of
// a writer as a reader, unless it is kept. A next that waits in a queue leaves it if that
// fails.
func (s *Store) probeHold(ctx context.Context, claim, next lock.Claim) (err error) {
	store := lock.Blocking(s)
	if _, err := store.Acquire(ctx, claim); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, store.Release(ctx, claim), s.forget(ctx, claim.Key, claim.Mode))
		if err != nil {
			_ = store.Release(ctx, next)
		}
	}()
	s.Renew(ctx, []lock.Claim{claim}, func(_ int, failed error) { err = failed })
	if _, refused := store.Acquire(ctx, next); err == nil && !errors.Is(refused, lock.ErrBusy) {
		err = refused
	}
	if err == nil && claim.Mode == lock.Write && claim.Keep.IsZero() {
		claim.Mode = lock.Read
		err = store.Lower(ctx, claim)
	}
	return err
}

// forget removes what a lock leaves for the next one of the same name.
func (s *Store) forget(ctx context.Context, key string, mode lock.Mode) error {
	switch {
	case s.tokens:
		return s.rdb.Del(ctx, prefixed(fenceCounter, s.name(key))).Err()
	case mode == lock.Semaphore:
		return s.rdb.Del(ctx, s.name(key)).Err()
	}
	return nil
}

// probeWatch subscribes. Where that is refused the store warns that waiters
// poll.
func (s *Store) probeWatch(ctx context.Context, claim lock.Claim) {
	if s.wakeups == nil {
		return
	}
	if stop, err := s.Watch(ctx, claim, func() {}); err == nil {
		stop()
	}
}

// cures are what to put right, by the class of the failure.
var cures = map[string]string{
	"NOPERM":          "permit the commands, keys and channels that docs/security.md lists, and the keys redlatch:check:* if the store has no key prefix",
	"NOAUTH":          "set Username and Password of the client",
	"WRONGPASS":       "set Username and Password of the client",
	"READONLY":        "this is a replica: connect to its master, with redis.NewFailoverClient if there is a Sentinel",
	"MOVED":           "this is a node of a cluster: connect with redis.NewClusterClient",
	"no cluster":      "this server is not a cluster: connect with redis.NewClient",
	"unknown command": "this is a Sentinel, or a proxy without scripts: locks need EVALSHA and EVAL",
	"script refused":  "this server refuses a script of this mode: docs/managed-redis.md says which modes run where, and with WithoutScriptPublish, WithoutScriptTime or WithSETNX",
	"OOM":             "Redis is full: locks are new data",
	"NOREPLICAS":      "Redis has fewer replicas than min-replicas-to-write",
	"MISCONF":         "Redis cannot write its snapshot to disk",
	"LOADING":         "Redis is still reading its data: start later",
	"CLUSTERDOWN":     "the cluster does not serve all slots",
	"wrong database":  "a cluster has database 0 only",
}

func cure(err error) string {
	if advice := cures[lock.ClassOf(err)]; advice != "" {
		return " (" + advice + ")"
	}
	return ""
}

package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var _ lock.Lister = (*Store)(nil)

const (
	// maxToken is how long a string may be that is taken for a lock of the SETNX format.
	maxToken = 64
	// lookers is how many locks of a page are looked at a time.
	lookers = 16
)

// List implements [lock.Lister] with SCAN on each master, never KEYS, and one look at each
// hash and short string that it finds. It needs more permissions than locks do: see
// docs/security.md. With [WithNameMapper] it answers [lock.ErrUnsupported].
//
// Other data may be in the same database. A hash is a lock if all its fields are owners, as
// Redisson and this kit name them. Without [WithSETNX], a string is one if it expires and
// looks like a token of another library: 16 to 64 letters, digits and +/=_-, or an
// owner of this kit.
func (s *Store) List(ctx context.Context, pattern string, page int) iter.Seq2[[]lock.Listed, error] {
	return func(yield func([]lock.Listed, error) bool) {
		if s.key == nil {
			yield(nil, fmt.Errorf("%w: the names of locks can't be turned into keys", lock.ErrUnsupported))
			return
		}
		nodes, err := s.masters(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, node := range nodes {
			for keys, err := range s.listNode(ctx, node, s.escapedPrefix()+pattern, page) {
				if !yield(keys, err) || err != nil {
					return
				}
			}
		}
	}
}

// escapedPrefix is what all names begin with, as a pattern.
func (s *Store) escapedPrefix() string { return globSpecial.ReplaceAllString(s.name(""), `\$0`) }

var globSpecial = regexp.MustCompile(`[*?\[\]^\\]`)

// node is a server that has keys of its own.
type node interface{ redis.Cmdable }

// masters are the servers that have the keys, in a fixed order.
func (s *Store) masters(ctx context.Context) (nodes []node, err error) {
	if s.cluster == nil {
		return []node{s.rdb}, s.unusable
	}
	var mu sync.Mutex
	var found []*redis.Client
	err = s.plainly(func() error {
		return s.cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, client)
			return nil
		})
	})
	slices.SortFunc(found, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	for _, client := range found {
		nodes = append(nodes, client)
	}
	return nodes, err
}

func (s *Store) listNode(ctx context.Context, n node, pattern string, page int) iter.Seq2[[]lock.Listed, error] {
	return func(yield func([]lock.Listed, error) bool) {
		for cursor := uint64(0); ; {
			var names []string
			err := s.plainly(func() (err error) {
				names, cursor, err = n.Scan(ctx, cursor, pattern, int64(page)).Result()
				return err
			})
			var found []lock.Listed
			if err == nil {
				found, err = s.looked(ctx, n, names)
			}
			if !yield(found, err) || err != nil || cursor == 0 {
				return
			}
		}
	}
}

// looked are the locks among some keys of a node.
func (s *Store) looked(ctx context.Context, n node, names []string) ([]lock.Listed, error) {
	names, err := s.candidates(ctx, n, names)
	if err != nil {
		return nil, err
	}
	found, failed := make([]lock.Listed, len(names)), make([]error, len(names))
	jobs := make(chan int)
	var workers sync.WaitGroup
	for range min(lookers, len(names)) {
		workers.Go(func() {
			for i := range jobs {
				found[i], failed[i] = s.lookAt(ctx, names[i])
			}
		})
	}
	for i := range names {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
	found = slices.DeleteFunc(found, func(l lock.Listed) bool { return !l.State.Held })
	s.countWaiting(ctx, n, found)
	return found, errors.Join(failed...)
}

// besideLocks are parts of names of what belongs to a lock.
var besideLocks = regexp.MustCompile(`^(redisson_lock_queue|redisson_lock_timeout|redisson_lock_token|redlatch:client):|:rwlock_timeout:\d+$`)

// candidates are the names that may be locks, by their type and length. What can't be
// told, as the key is moving to another node, stays.
func (s *Store) candidates(ctx context.Context, n node, names []string) (candidates []string, err error) {
	names = slices.DeleteFunc(names, besideLocks.MatchString)
	if len(names) == 0 {
		return nil, nil
	}
	err = s.plainly(func() error {
		types, err := n.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, name := range names {
				p.Type(ctx, name)
			}
			return nil
		})
		if err != nil && len(types) == 0 {
			return err
		}
		lengths := make(map[string]*redis.IntCmd)
		_, _ = n.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				switch kind, err := types[i].(*redis.StatusCmd).Result(); {
				case kind == "string":
					lengths[name] = p.StrLen(ctx, name)
				case err != nil, kind == "hash":
					candidates = append(candidates, name)
				}
			}
			return nil
		})
		for name, length := range lengths {
			n, err := length.Result()
			if err != nil && isRefused(s.failure(err)) {
				return err
			}
			if err != nil || n <= maxToken {
				candidates = append(candidates, name)
			}
		}
		return nil
	})
	return candidates, err
}

// lookAt is a lock, if the name is that of one and is held.
func (s *Store) lookAt(ctx context.Context, name string) (lock.Listed, error) {
	reply, err := s.inspect(ctx, name, tagged(name), lock.MaxListed)
	if err != nil {
		if isWrongType(err) {
			err = nil
		}
		return lock.Listed{}, err
	}
	key, ok := s.key(name)
	state := s.stateOf(reply)
	if !ok || !s.isLock(reply, state) {
		return lock.Listed{}, nil
	}
	return lock.Listed{Key: key, State: state, Waiting: -1}, nil
}

var (
	ownerPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:\d+(#\d+)?$`)
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9+/=_-]{16,64}$`)
)

// isLock says whether what an inspection has found is a lock, and not other data.
func (s *Store) isLock(reply []any, state lock.State) bool {
	if token, isToken := tokenOf(reply); isToken {
		owner := ownerHolds(token, 1).Owner
		return s.setnx || state.TTL > 0 && (tokenPattern.MatchString(owner) || ownerPattern.MatchString(owner))
	}
	if state.Mode == lock.Semaphore && reply[0] == "string" {
		return state.Held
	}
	return !slices.ContainsFunc(state.Owners, func(o lock.OwnerHolds) bool { return !ownerPattern.MatchString(o.Owner) })
}

// countWaiting says how many listen to the locks' channels on their node, where the server
// tells.
func (s *Store) countWaiting(ctx context.Context, n node, found []lock.Listed) {
	if len(found) == 0 {
		return
	}
	channels := make([]string, len(found))
	for i := range found {
		channels[i] = waitingChannel(s.name(found[i].Key), found[i].State.Mode)
	}
	var listening map[string]int64
	if guarded(func() (err error) {
		if s.clustered() {
			listening, err = n.PubSubShardNumSub(ctx, channels...).Result()
			return err
		}
		listening, err = n.PubSubNumSub(ctx, channels...).Result()
		return err
	}) != nil {
		listening = nil
	}
	for i := range found {
		l := &found[i]
		if queued := len(l.State.Waiters) + l.State.MoreWaiters; queued > 0 {
			l.Waiting = queued
		} else if listening != nil {
			l.Waiting = int(listening[channels[i]])
		}
	}
}

func waitingChannel(name string, m lock.Mode) string {
	switch m {
	case lock.Read, lock.Write:
		return prefixed(readWriteChannel, name)
	case lock.Semaphore:
		return prefixed(semaphoreChannel, name)
	}
	return prefixed(lockChannel, name)
}

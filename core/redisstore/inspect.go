package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

var errBadReply = errors.New("redis: the reply is not that of the script")

// Inspect implements [lock.Store]. It shows whatever lock has the key. Which owners
// of more than [lock.MaxListed] are listed is up to Redis. A fair lock that nobody
// waits for looks like an exclusive one. Permits that Redisson took don't show their
// owners: Owners has their ids, in hex.
func (s *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	name, err := s.nameOf(key)
	if err != nil {
		return lock.State{}, err
	}
	reply, err := s.inspect(ctx, name, tagged(name), lock.MaxListed)
	if err != nil {
		return lock.State{}, noLock(name, err)
	}
	return s.stateOf(reply), nil
}

// noLock is the error of a call to which the key of the lock, or one that belongs to it,
// may be of another type than any lock has.
func noLock(name string, err error) error {
	if isWrongType(err) {
		return fmt.Errorf("%w: lock name %q: the key has something that is no lock: %w", lock.ErrInvalid, name, err)
	}
	return err
}

// inspect returns {kind, pttl, holds, waiters, other holds, other waiters}. Without the
// prefix of sentinels it lists dead readers as well.
func (s *Store) inspect(ctx context.Context, name, sentinels string, most int) ([]any, error) {
	if s.setnx {
		reply, err := s.inspectReply(s.run(ctx, setnxInspectScript.call([]string{name}, nil)))
		if err != nil || reply[0] == tokenKind || reply[0] == "none" {
			return reply, err
		}
	}
	return s.inspectReply(s.runOnAll(ctx, inspectScript.call(besides(name), []any{sentinels, most})))
}

func (s *Store) inspectReply(cmd *redis.Cmd, err error) ([]any, error) {
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err == nil && len(reply) != 6 {
		err = errBadReply
	}
	return reply, s.failure(err)
}

// besides are the lock and what some modes have besides it, under the name of another lock
// if they refuse this one.
func besides(name string) []string {
	if checkShared(name) != nil {
		return []string{name}
	}
	return []string{name, permitsOf(name), prefixed(fairQueue, name)}
}

// runOnAll runs a script on the lock and what is besides it; on less of it while
// its slot migrates and not all of it is in one place.
func (s *Store) runOnAll(ctx context.Context, c call) (*redis.Cmd, error) {
	for {
		cmd, err := s.run(ctx, c)
		if c.keys == 1 || !isTryAgain(err) {
			return cmd, err
		}
		c = c.on(c.keys - 1)
	}
}

// lookAgain is for how many ms at least a key of another type is busy: what is wrong
// may be a key that belongs to the lock, and stay.
const lookAgain = 100

// occupied is the error of an acquire that found a key of another type: busy if
// it is a lock of another mode, which will be gone by then.
func (s *Store) occupied(ctx context.Context, t target, cause error) error {
	reply, err := s.inspect(ctx, t.name, tagged(t.name), lock.MaxListed)
	if err != nil && !isRefused(err) { // nobody knows what the key has
		return err
	}
	if err == nil {
		state := s.stateOf(reply)
		pttl, _ := reply[1].(int64)
		switch {
		case state.Held:
			return &lock.BusyError{TTL: state.TTL}
		case pttl != -1: // an idle semaphore, or gone meanwhile
			return &lock.BusyError{TTL: remaining(max(pttl, lookAgain))}
		}
	}
	return fmt.Errorf("%w: lock name %q: the key has something that is no lock of mode %s: %w", lock.ErrInvalid, t.name, t.Mode, cause)
}

// stateOf reads {kind, pttl, holds, waiters, other holds, other waiters}.
func (s *Store) stateOf(reply []any) lock.State {
	pttl, _ := reply[1].(int64)
	holds, _ := reply[2].([]any)
	waiters, _ := reply[3].([]any)
	var state lock.State
	token, isToken := tokenOf(reply)
	switch {
	case isToken:
		state = lock.State{Held: true, Owners: []lock.OwnerHolds{ownerHolds(token, 1)}, TTL: remaining(pttl)}
	case reply[0] == "string":
		state = permitsState(holds)
	default:
		state = hashState(holds, count(reply[4]), pttl)
	}
	if state.Held {
		state.MoreOwners = count(reply[4])
		state.Foreign = isToken != s.setnx
	}
	state.MoreWaiters = count(reply[5])
	for _, w := range waiters {
		place, _ := w.(string)
		state.Waiters = append(state.Waiters, strings.TrimSuffix(place, placeMark))
	}
	if len(waiters) > 0 && state.Mode == lock.Exclusive {
		state.Mode = lock.Fair
	}
	return state
}

// tokenOf is the token of a lock of the SETNX format; ok is false for any other.
func tokenOf(reply []any) (token string, ok bool) {
	holds, _ := reply[2].([]any)
	if reply[0] != tokenKind || len(holds) == 0 {
		return "", false
	}
	token, _ = holds[0].(string)
	return token, true
}

// count is a number of a reply, 0 if it is none.
func count(reply any) int {
	n, _ := reply.(int64)
	return int(max(n, 0))
}

// hashState reads fields and values of a lock, which has others besides.
func hashState(holds []any, others int, pttl int64) lock.State {
	var state lock.State
	for ; len(holds) >= 2; holds = holds[2:] {
		field, _ := holds[0].(string)
		value, _ := holds[1].(string)
		switch {
		case field != "mode":
			count, _ := strconv.Atoi(value)
			state.Owners = append(state.Owners, ownerHolds(strings.TrimSuffix(field, writeMark), count))
		case value == "write":
			state.Mode = lock.Write
		default:
			state.Mode = lock.Read
		}
	}
	if len(state.Owners)+others == 0 {
		return lock.State{}
	}
	state.Held, state.TTL = true, remaining(pttl)
	return state
}

// ownerHolds are the holds of an owner, by how the lock names it.
func ownerHolds(name string, holds int) lock.OwnerHolds {
	owner, kept := strings.CutSuffix(name, keptMark)
	return lock.OwnerHolds{Owner: owner, Holds: holds, Kept: kept}
}

// permitsState reads permits and how long they last, the nearest end first.
func permitsState(holds []any) lock.State {
	var state lock.State
	for ; len(holds) >= 2; holds = holds[2:] {
		id, _ := holds[0].(string)
		left, _ := holds[1].(int64)
		permit := permitOwner(id)
		if i := slices.IndexFunc(state.Owners, func(o lock.OwnerHolds) bool { return o.Owner == permit.Owner && o.Kept == permit.Kept }); i >= 0 {
			state.Owners[i].Holds++
		} else {
			state.Owners = append(state.Owners, permit)
		}
		state.Held, state.Mode, state.TTL = true, lock.Semaphore, remaining(left)
	}
	return state
}

// remaining is a number of ms; a negative one means no end, and so does one
// that no duration can hold: Java may lock for a thousand years.
func remaining(ms int64) time.Duration {
	if ms < 0 || ms > int64(math.MaxInt64/time.Millisecond) {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

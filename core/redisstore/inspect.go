package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

var errBadReply = errors.New("redis: the reply is not that of the script")

// Inspect implements [lock.Store]. It shows whatever lock has the key. A fair
// lock that nobody waits for looks like an exclusive one. The permits of a
// semaphore do not tell their owners: in their place are the ids that Redisson
// shows, in hex.
func (s *Store) Inspect(ctx context.Context, key string) (lock.State, error) {
	name, err := s.nameOf(key)
	if err != nil {
		return lock.State{}, err
	}
	cmd, err := s.run(ctx, call{inspectScript, []string{name}, []any{
		prefixed(fairQueue, name), permitsOf(name), tagged(name),
	}})
	if err != nil {
		return lock.State{}, err
	}
	reply, err := cmd.Slice()
	if err == nil && len(reply) != 4 {
		err = errBadReply
	}
	if err != nil {
		return lock.State{}, s.failure(err)
	}
	return stateOf(reply), nil
}

// stateOf reads {kind, pttl, holds, waiters}.
func stateOf(reply []any) lock.State {
	pttl, _ := reply[1].(int64)
	holds, _ := reply[2].([]any)
	waiters, _ := reply[3].([]any)
	var state lock.State
	if reply[0] == "string" {
		state = permitsState(holds)
	} else {
		state = hashState(holds, pttl)
	}
	for _, w := range waiters {
		place, _ := w.(string)
		owner, _, _ := strings.Cut(place, transferMark)
		state.Waiters = append(state.Waiters, owner)
	}
	if len(waiters) > 0 && state.Mode == lock.Exclusive {
		state.Mode = lock.Fair
	}
	return state
}

// hashState reads fields and values of a lock.
func hashState(holds []any, pttl int64) lock.State {
	var state lock.State
	for ; len(holds) >= 2; holds = holds[2:] {
		field, _ := holds[0].(string)
		value, _ := holds[1].(string)
		switch {
		case field != "mode":
			count, _ := strconv.Atoi(value)
			state.Owners = append(state.Owners, lock.OwnerHolds{Owner: strings.TrimSuffix(field, ":write"), Holds: count})
		case value == "write":
			state.Mode = lock.Write
		default:
			state.Mode = lock.Read
		}
	}
	if len(state.Owners) == 0 {
		return lock.State{}
	}
	state.Held, state.TTL = true, remaining(pttl)
	return state
}

// permitsState reads permits and how long they last, the nearest end first.
func permitsState(holds []any) lock.State {
	var state lock.State
	for ; len(holds) >= 2; holds = holds[2:] {
		id, _ := holds[0].(string)
		left, _ := holds[1].(int64)
		state.Owners = append(state.Owners, lock.OwnerHolds{Owner: hex.EncodeToString([]byte(id)), Holds: 1})
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

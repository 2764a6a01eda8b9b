package redisstore

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
)

// permitBytes is how long Redisson's ids of permits are: they are random.
const permitBytes = 16

// semaphore is Redisson's getPermitExpirableSemaphore.
type semaphore struct{}

func (semaphore) check(c lock.Claim) error {
	if c.Permits < 1 || c.Size < c.Permits || c.Size > lock.MaxPermits {
		return fmt.Errorf("%w: %d permits of a semaphore of size %d, the limit is %d", lock.ErrInvalid, c.Permits, c.Size, lock.MaxPermits)
	}
	return nil
}

func (semaphore) keys(t target) []string { return []string{t.name, permitsOf(t.name)} }

func (s semaphore) acquire(t target) call {
	return semaphoreAcquireScript.call(s.keys(t), append([]any{
		t.Size, t.ttl, s.channels(t)[0], t.publish,
	}, permits(t.Owner, t.Permits)...))
}

func (s semaphore) release(t target) call {
	if t.keep > 0 {
		return s.keep(t)
	}
	return semaphoreReleaseScript.call(s.keys(t), append([]any{
		s.channels(t)[0], t.publish,
	}, permits(t.Owner, t.Permits)...))
}

// keep is a release under a minimum hold.
func (s semaphore) keep(t target) call {
	args := []any{t.keep, s.channels(t)[0], t.publish}
	kept := permits(t.Owner+keptMark, t.Permits)
	for i, id := range permits(t.Owner, t.Permits) {
		args = append(args, id, kept[i])
	}
	return semaphoreKeepScript.call(s.keys(t), args)
}

func (semaphore) renew(t target) call {
	return semaphoreRenewScript.call([]string{permitsOf(t.name), t.name}, append([]any{t.ttl}, permits(t.Owner, t.Permits)...))
}

func (semaphore) channels(t target) []string { return []string{prefixed(semaphoreChannel, t.name)} }

// permits are the ids of an owner's permits: always the same, so that a repeated claim is
// about the same permits, and with the owner in them, so that an inspection shows it.
func permits(owner string, n int) []any {
	ids := make([]any, n)
	for i := range ids {
		ids[i] = owner + permitMark + strconv.Itoa(i)
	}
	return ids
}

// permitMark is between an owner and the number of its permit.
const permitMark = "/"

// permitOwner is the owner of a permit and whether it is kept: see [permits]. An id of
// Redisson has none, and is shown in hex, as Redisson does.
func permitOwner(id string) lock.OwnerHolds {
	at := strings.LastIndex(id, permitMark)
	if at < 0 || len(id) == permitBytes {
		return lock.OwnerHolds{Owner: hex.EncodeToString([]byte(id)), Holds: 1}
	}
	return ownerHolds(id[:at], 1)
}

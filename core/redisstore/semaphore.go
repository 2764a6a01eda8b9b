package redisstore

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/redlatch/redlatch/core/lock"
)

// permitBytes is how long Redisson's ids of permits are.
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
	}, permits(t.Claim)...))
}

func (s semaphore) release(t target) call {
	if t.keep > 0 {
		return s.keep(t)
	}
	return semaphoreReleaseScript.call(s.keys(t), append([]any{
		s.channels(t)[0], t.publish,
	}, permits(t.Claim)...))
}

// keep is a release under a minimum hold.
func (s semaphore) keep(t target) call {
	args := []any{t.keep, s.channels(t)[0], t.publish}
	for _, id := range permits(t.Claim) {
		args = append(args, id, kept(id.([]byte)))
	}
	return semaphoreKeepScript.call(s.keys(t), args)
}

func (semaphore) renew(t target) call {
	return semaphoreRenewScript.call([]string{permitsOf(t.name), t.name}, append([]any{t.ttl}, permits(t.Claim)...))
}

func (semaphore) channels(t target) []string { return []string{prefixed(semaphoreChannel, t.name)} }

// keptPermit begins the ids that keep permits, for inspections.
const keptPermit = "kept"

// kept is the id that keeps a permit for the rest of a minimum hold.
func kept(id []byte) []byte { return append([]byte(keptPermit), id[:permitBytes-len(keptPermit)]...) }

// permits are the ids of the owner's permits: always the same, so that a
// repeated claim is about the same permits.
func permits(c lock.Claim) []any {
	ids := make([]any, c.Permits)
	for i := range ids {
		sum := sha256.Sum256([]byte(c.Owner + "/" + strconv.Itoa(i)))
		ids[i] = sum[:permitBytes]
	}
	return ids
}

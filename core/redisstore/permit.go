package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
)

// ReleasePermits releases permits of a semaphore by their ids, no matter who took
// them: a Java service, or a process that has died. The ids are those of Redisson,
// 32 hexadecimal digits, as [Store.Inspect] lists them. A holder in Go notices as
// after [lock.Locker.ForceRelease].
//
// [lock.ErrNotHeld] means that some of them were no longer taken; the others are
// released. [lock.ErrInvalid] means that an id isn't valid, or that the key has no semaphore.
func (s *Store) ReleasePermits(ctx context.Context, key string, ids ...string) error {
	name, err := s.nameOf(key)
	if err == nil {
		err = checkShared(name)
	}
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("%w: no ids of permits", lock.ErrInvalid)
	}
	args := []any{prefixed(semaphoreChannel, name), s.publishing()}
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil || len(raw) != permitBytes {
			return fmt.Errorf("%w: permit id %q: need 32 hexadecimal digits", lock.ErrInvalid, id)
		}
		args = append(args, raw)
	}
	n, err := s.number(ctx, semaphoreReleaseScript.call([]string{name, permitsOf(name)}, args))
	if n > 0 {
		s.announce(ctx, name, []string{""})
	}
	if err == nil && n == 0 {
		return lock.ErrNotHeld
	}
	return noLock(name, err)
}

package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
)

// ReleasePermits releases permits of a semaphore, no matter who took them: a Java
// service, or a process that has died. It names them as [Store.Inspect] lists them: those
// of Redisson by their ids, 32 hexadecimal digits, and all that an owner in Go has by the
// owner. A holder in Go notices as after [lock.Locker.ForceRelease].
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
		permits, err := s.permitsNamed(ctx, name, id)
		if err != nil {
			return noLock(name, err)
		}
		args = append(args, permits...)
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

// permitsNamed are the permits that an id, or an owner, names. None of an owner is a permit
// that nobody has.
func (s *Store) permitsNamed(ctx context.Context, name, id string) (permits []any, err error) {
	raw, err := hex.DecodeString(id)
	switch {
	case err == nil && len(raw) == permitBytes:
		return []any{raw}, nil
	case lock.LockerOf(id) == "":
		return nil, fmt.Errorf("%w: permit %q: need 32 hexadecimal digits, or an owner", lock.ErrInvalid, id)
	}
	reply, err := s.inspect(ctx, name, "", allListed)
	if err != nil {
		return nil, err
	}
	holds, _ := reply[2].([]any)
	for ; len(holds) >= 2; holds = holds[2:] {
		if permit, _ := holds[0].(string); reply[0] == "string" && permitOwner(permit).Owner == id {
			permits = append(permits, permit)
		}
	}
	if len(permits) == 0 {
		permits = []any{id}
	}
	return permits, nil
}

package redisstore

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
)

// Redisson's keys and channels other than the lock itself, as prefixes of its
// name.
const (
	lockChannel      = "redisson_lock__channel"
	readWriteChannel = "redisson_rwlock"
	semaphoreChannel = "redisson_sc"
	fairQueue        = "redisson_lock_queue"
	fairPatience     = "redisson_lock_timeout"
	fenceCounter     = "redisson_lock_token"
)

// prefixed derives a channel or key from the name of a lock, by Redisson's
// rule: braces around the name make both fall into one slot of a cluster,
// unless the name already has a brace.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// suffixed is its other rule.
func suffixed(name, suffix string) string { return tagged(name) + ":" + suffix }

func tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// sentinel is the key that expires with the longest read hold of an owner: the
// first of the keys that Redisson has for each hold.
func sentinel(name, owner string) string {
	return suffixed(name, owner) + ":rwlock_timeout:1"
}

// permitsOf is where a semaphore keeps the permits that are taken.
func permitsOf(name string) string { return suffixed(name, "timeout") }

// latchChannel always adds braces, whatever the name has: the one exception
// to Redisson's rules.
func latchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// checkName refuses a name whose derived names would fall into other slots:
// in a cluster, Redisson can lock such a name and then not unlock it.
func checkName(name string) error {
	if hashTag(prefixed(lockChannel, name)) == hashTag(name) {
		return nil
	}
	return fmt.Errorf("%w: lock name %q: in a cluster, braces must enclose a hash tag that is not empty", lock.ErrInvalid, name)
}

// checkShared refuses a name that is all one hash tag, in modes that have keys
// besides the lock: those of "{a}" are those of "a".
func checkShared(name string) error {
	tag := strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}")
	if tagged(tag) != name || tag == name {
		return nil
	}
	return fmt.Errorf("%w: lock name %q: in this mode it would share keys with %q; put something before or behind the braces", lock.ErrInvalid, name, tag)
}

// hashTag is the part of a key that decides its slot.
func hashTag(key string) string {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			return tag
		}
	}
	return key
}

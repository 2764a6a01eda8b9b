package redisstore

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
)

// Redisson's channels, as prefixes of the lock's name.
const (
	lockChannel      = "redisson_lock__channel"
	readWriteChannel = "redisson_rwlock"
)

// prefixed derives a channel or key from the name of a lock, by Redisson's
// rule: braces around the name make both fall into one slot of a cluster,
// unless the name has a brace of its own.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// checkName refuses a name whose derived names would fall into other slots:
// in a cluster, Redisson can lock such a name and then not unlock it.
func checkName(name string) error {
	if hashTag(prefixed(lockChannel, name)) == hashTag(name) {
		return nil
	}
	return fmt.Errorf("%w: lock name %q: in a cluster, braces must enclose a hash tag that is not empty", lock.ErrInvalid, name)
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

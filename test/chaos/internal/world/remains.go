package world

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// handover is how long a release keeps a fair lock for the next of its queue,
	// who may have been killed.
	handover = 5 * time.Second
	// queue is how long the queue of a fair lock stays for the places of Redisson
	// that may follow those of the dead.
	queue = 15*time.Second + 5*time.Minute
)

// owners finds the locker in the name of an owner.
var owners = regexp.MustCompile(`([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):[0-9]+`)

func left(key, why string) error { return fmt.Errorf("the key %q is left %s", key, why) }

// Check says why a key must not be there. It may be if it is of lockers that
// were killed, and ends when what they had does.
func (c Crew) Check(ctx context.Context, rdb *redis.Client, key string) error {
	most := c.Longest
	switch {
	case isQueue(key):
		most = queue
	case strings.HasPrefix(key, "fair:"):
		most = max(most, handover)
	}
	switch ttl, err := rdb.PTTL(ctx, key).Result(); {
	case err != nil:
		return err
	case ttl == -2: // go-redis has no unit for those
		return nil
	case ttl < 0:
		return left(key, "for ever")
	case ttl > most:
		return left(key, fmt.Sprintf("for %v", ttl))
	case c.Forgetful, isCount(key): // how many permits are free says nothing of who had them
		return nil
	}
	names, err := names(ctx, rdb, key)
	if err != nil {
		return err
	}
	if isPermits(key) { // which do not name their owners
		for _, killed := range c.Killed {
			if killed {
				return nil
			}
		}
	}
	return c.excuses(key, names)
}

// excuses says why owners must not have a key.
func (c Crew) excuses(key string, names []string) error {
	if len(names) == 0 {
		return left(key, "by nobody")
	}
	for _, name := range names {
		killed, known := c.Killed[name]
		switch {
		case !known:
			return left(key, "by a locker that nobody knows")
		case !killed:
			return left(key, "by a locker that was closed")
		}
	}
	return nil
}

// names are the lockers whose owners a key names, in its own name or in what it
// has.
func names(ctx context.Context, rdb *redis.Client, key string) ([]string, error) {
	texts := []string{key}
	kind, err := rdb.Type(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	var more []string
	switch kind {
	case "string":
		var token string
		token, err = rdb.Get(ctx, key).Result()
		more = []string{token}
	case "hash":
		more, err = rdb.HKeys(ctx, key).Result()
	case "list":
		more, err = rdb.LRange(ctx, key, 0, -1).Result()
	case "zset":
		more, err = rdb.ZRange(ctx, key, 0, -1).Result()
	}
	var found []string
	for _, text := range append(texts, more...) {
		for _, match := range owners.FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
	}
	return found, err
}

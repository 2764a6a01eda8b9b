package redisstore

import (
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// What tests outside the package look at.
var (
	Prefixed  = prefixed
	CheckName = checkName
	HashTag   = hashTag

	ErrBadReply = errBadReply
	ErrReplicas = errReplicas
)

const (
	LockChannel      = lockChannel
	ReadWriteChannel = readWriteChannel
)

// OutcomeOf is what became of a call that failed.
func OutcomeOf(err error) lock.Outcome {
	outcome, _ := meaningOf(err)
	return outcome
}

// ClassOf is the class of a failure.
func ClassOf(err error) string {
	_, class := meaningOf(err)
	return class
}

// Classes are those of error replies.
func Classes() []string {
	classes := slices.Collect(maps.Keys(replies))
	for _, g := range generic {
		classes = append(classes, g.class)
	}
	return classes
}

// SHA is the name of a script on the server.
func SHA(names ...string) string { return load(names...).sha }

// SetSilence changes how soon a silent connection is given up. Call it before
// the first Watch.
func (s *Store) SetSilence(ping, silence time.Duration) {
	s.wakeups.Ping, s.wakeups.Silence = ping, silence
}

// Topology is the hook on the nodes of a cluster.
func (s *Store) Topology() redis.Hook { return s.topology }

// Suspect does what the store does when a call has no answer.
func (s *Store) Suspect() { s.topology.suspect() }

const (
	Overlap    = overlap
	UndoShare  = undoShare
	MaxWorkers = maxWorkers
)

// Workers is how many goroutines send to the server of a store without a cluster.
func (s *Store) Workers() int {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	return len(s.sender.flying) + len(s.sender.idle)
}

// Nodes is how many nodes of a cluster the store remembers.
func (s *Store) Nodes() (n int) {
	s.senders.Range(func(any, any) bool { n++; return true })
	return n
}

// VariantTexts are the scripts that a store sends instead of others.
func (s *Store) VariantTexts() (texts []string) {
	for _, v := range s.variants {
		texts = append(texts, v.script.text)
	}
	return texts
}

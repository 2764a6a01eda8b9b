package redisstore_test

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

func TestNamesAreDerivedAsRedissonDoes(t *testing.T) {
	tests := []struct{ name, channel, readWrite string }{
		{"a", "redisson_lock__channel:{a}", "redisson_rwlock:{a}"},
		{"orders", "redisson_lock__channel:{orders}", "redisson_rwlock:{orders}"},
		{"lock:order:42", "redisson_lock__channel:{lock:order:42}", "redisson_rwlock:{lock:order:42}"},
		{"{t}a", "redisson_lock__channel:{t}a", "redisson_rwlock:{t}a"},
		{"a{t}b", "redisson_lock__channel:a{t}b", "redisson_rwlock:a{t}b"},
		{"app:{t}a", "redisson_lock__channel:app:{t}a", "redisson_rwlock:app:{t}a"},
		{"a{b", "redisson_lock__channel:a{b", "redisson_rwlock:a{b"},
		{"a}b", "redisson_lock__channel:{a}b}", "redisson_rwlock:{a}b}"},
	}
	for _, tt := range tests {
		if got := redisstore.Prefixed(redisstore.LockChannel, tt.name); got != tt.channel {
			t.Errorf("lock channel of %q is %q, want %q", tt.name, got, tt.channel)
		}
		if got := redisstore.Prefixed(redisstore.ReadWriteChannel, tt.name); got != tt.readWrite {
			t.Errorf("read/write channel of %q is %q, want %q", tt.name, got, tt.readWrite)
		}
	}
}

func TestNamesWhoseChannelIsInAnotherSlotAreRefused(t *testing.T) {
	tests := []struct {
		name string
		ok   bool
	}{
		{"a", true},
		{"lock:order:42", true},
		{"{t}a", true},
		{"a{t}b", true},
		{"a{t}b{u}", true},
		{"a{{t}b", true}, // Redis takes "{t" for the tag, in both names
		{"a{b", false},
		{"{}x", false},
		{"a}b{", false},
		{"a}b", false}, // {a}b} would have the tag a
		{"a{}b{t}", false},
	}
	for _, tt := range tests {
		err := redisstore.CheckName(tt.name)
		if tt.ok && err != nil {
			t.Errorf("%q is refused: %v", tt.name, err)
		}
		if !tt.ok && !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", tt.name, err)
		}
	}
}

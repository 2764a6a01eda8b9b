// Package interop_test holds the kit to its promise to share locks with Java:
// a real Redisson and a real locker contend on a real Redis. README.md says
// how to run it, and what it proves.
package interop_test

import (
	"testing"

	"github.com/redlatch/redlatch/test/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

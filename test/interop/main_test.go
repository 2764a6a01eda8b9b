// Package interop_test holds the kit to its promise to share locks with Java:
// a real Redisson and a real locker contend on a real Redis. README.md says
// how to run it, and what it proves.
package interop_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

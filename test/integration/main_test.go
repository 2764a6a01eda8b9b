// Package integration_test holds the kit to its promises on real servers.
package integration_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/internal/leak"
)

func TestMain(m *testing.M) {
	go lateness.watch()
	leak.Main(m, goleak.IgnoreTopFunction("github.com/redlatch/redlatch/test/integration_test.(*stalls).watch"))
}

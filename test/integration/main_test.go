// Package integration_test holds the kit to its promises on real servers.
package integration_test

import (
	"testing"

	"github.com/redlatch/redlatch/test/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

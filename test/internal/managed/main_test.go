package managed_test

import (
	"testing"

	"github.com/redlatch/redlatch/test/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

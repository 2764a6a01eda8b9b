package sqlstore_test

import (
	"testing"

	"go.uber.org/goleak"
)

// GORM never ends what looks for prepared statements that are old.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

package sqlstore_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// abreast is how many tests run at the same time: they mostly wait for databases and times.
const abreast = "6"

// GORM never ends what looks for prepared statements that are old.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", abreast); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(withServers{m}, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// Package leak looks for goroutines that are left when the tests of a package have
// ended.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/test/internal/process"
)

// patience is how long goroutines may take to end. A pool of go-redis that couldn't
// connect looks for its server once a second, and notices only then that it was
// closed; goleak by itself waits for half a second.
const patience = 5 * time.Second

// Main is a TestMain: it runs the tests, and fails if goroutines are left.
func Main(m *testing.M, ignored ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := process.Poll(patience, func() error { return goleak.Find(ignored...) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

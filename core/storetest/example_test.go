package storetest_test

import (
	"testing"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/storetest"
)

// testStore is what TestStore of your package does.
func testStore(t *testing.T) { //nolint:thelper // it is a test
	storetest.Run(t, func(*testing.T) lock.Store {
		return memstore.New() // your store
	}, storetest.Require(lock.Read, lock.Write))
}

// A store of your own passes the suite, in every mode that it claims to have.
func Example() { _ = testStore }

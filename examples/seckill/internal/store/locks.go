package store

import (
	"database/sql"

	"github.com/redlatch/redlatch/core/sqlstore"
)

// lockConns bounds the connections of one instance for its locks. They are apart from
// those for orders: requests that wait for a lock must not keep others from releasing one.
const lockConns = 8

// OpenLocks opens a pool for locks in the same database, without any I/O.
func OpenLocks(at Address) (*sql.DB, sqlstore.Dialect, error) {
	pools, _, err := connect(at)
	if err != nil {
		return nil, 0, err
	}
	for _, pool := range pools[1:] {
		_ = pool.Close() // was never used
	}
	if at.engine != engineSQLite {
		sized(pools[0], lockConns)
	}
	return pools[0], dialects[at.engine].fence, nil
}

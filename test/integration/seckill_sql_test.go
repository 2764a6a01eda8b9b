package integration_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// The example is a separate module, with the SQL drivers. Its tests of the store, and of
// locks in the database, cover SQLite by themselves, and the databases that the environment
// names.
func TestSeckillStoreOnMariaDBAndPostgreSQL(t *testing.T) {
	for _, tt := range []struct {
		name, env string
		start     func(testing.TB) string
	}{
		{"MariaDB", "SECKILL_TEST_MYSQL", sqltest.MariaDB},
		{"PostgreSQL", "SECKILL_TEST_POSTGRES", sqltest.Postgres},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := tt.start(t)
			tests := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-race", "./internal/store/...")
			tests.Dir = "../../examples/seckill"
			locks := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-race", "-run=LocksInTheDatabase", "./internal/app/...")
			locks.Dir = tests.Dir
			for _, command := range []*exec.Cmd{tests, locks} {
				command.Env = append(os.Environ(), tt.env+"="+url)
				out, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", command, err, out)
				}
				t.Logf("%s", out)
			}
		})
	}
}

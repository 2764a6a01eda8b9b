package sqltest

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
)

// MariaDB starts a MariaDB server and returns the URL of its empty database,
// mysql://user:password@host:port/database. The user may do everything in it, and in
// others whose names begin with its name.
func MariaDB(t testing.TB) string {
	t.Helper()
	return StartMariaDB(t).URL()
}

// StartMariaDB is [MariaDB] for tests that do more with the server than to use it. The
// arguments override others.
func StartMariaDB(t process.Host, args ...string) *Server {
	t.Helper()
	install := process.Find(t, "mariadb-install-db", "mysql_install_db")
	binary := process.Find(t, "mariadbd", "mysqld")

	s := newServer(t, "mysql", nil, syscall.SIGKILL) // the folder goes too, so there is nothing to save
	base := []string{"--no-defaults", "--datadir=" + s.path("data")}
	if syscall.Geteuid() == 0 {
		base = append(base, "--user=root") // said aloud, it does run as root
	}
	s.run("", install, append(base, "--auth-root-authentication-method=normal", "--skip-test-db")...)

	setup := s.file("setup.sql", fmt.Sprintf(`CREATE DATABASE IF NOT EXISTS %[1]s CHARACTER SET utf8mb4;
CREATE USER IF NOT EXISTS '%[1]s'@'127.0.0.1' IDENTIFIED BY '%[2]s';
GRANT ALL ON %[3]s.* TO '%[1]s'@'127.0.0.1';
`, name, password, "`"+name+"%`"))
	s.serve(binary, "ready for connections", func(port int) []string {
		return slices.Concat(base, []string{
			"--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--skip-name-resolve",
			"--socket=" + s.path("sock"), "--pid-file=" + s.path("pid"), "--init-file=" + setup,
			"--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
			"--max-connections=500",
		}, args)
	})
	return s
}

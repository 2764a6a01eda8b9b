package sqltest_test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/sqltest"
)

// script is understood by both. It fails unless the user may create tables.
const script = "CREATE TABLE voucher (id INT PRIMARY KEY); INSERT INTO voucher VALUES (42); SELECT id FROM voucher;"

func TestServersAcceptTheirURL(t *testing.T) {
	for name, test := range map[string]struct {
		start  func(testing.TB) string
		client func(t *testing.T, dsn *url.URL) *exec.Cmd
	}{
		"MariaDB":  {sqltest.MariaDB, mariadb},
		"Postgres": {sqltest.Postgres, psql},
	} {
		t.Run(name, func(t *testing.T) {
			dsn, err := url.Parse(test.start(t))
			if err != nil {
				t.Fatal(err)
			}
			output, err := test.client(t, dsn).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if !strings.Contains(string(output), "42") {
				t.Errorf("the client printed %q, want the inserted 42", output)
			}
		})
	}
}

func mariadb(t *testing.T, dsn *url.URL) *exec.Cmd {
	t.Helper()
	password, _ := dsn.User.Password()
	return exec.CommandContext(t.Context(), process.Find(t, "mariadb", "mysql"), "--no-defaults",
		"--host="+dsn.Hostname(), "--port="+dsn.Port(), "--protocol=tcp",
		"--user="+dsn.User.Username(), "--password="+password,
		"--execute="+script, strings.TrimPrefix(dsn.Path, "/"))
}

func psql(t *testing.T, dsn *url.URL) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), process.Find(t, "psql"), "--no-psqlrc", "--command="+script, dsn.String())
}

func TestNothingIsLeftAfterTheTest(t *testing.T) {
	for name, start := range map[string]func(testing.TB) string{
		"MariaDB": sqltest.MariaDB, "Postgres": sqltest.Postgres,
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			if err := os.Chmod(filepath.Dir(temp), 0o755); err != nil { // servers run as somebody else
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", temp)
			var dsn string
			t.Run("inner", func(t *testing.T) { dsn = start(t) })
			if dsn == "" {
				t.Skip("the inner test was skipped")
			}
			u, err := url.Parse(dsn)
			if err != nil {
				t.Fatal(err)
			}
			if conn, err := net.Dial("tcp", u.Host); err == nil {
				conn.Close()
				t.Errorf("%s still listens", u.Host)
			}
			left, err := os.ReadDir(temp)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range left {
				t.Errorf("%s is left", entry.Name())
			}
		})
	}
}

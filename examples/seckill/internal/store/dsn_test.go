package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/redlatch/redlatch/examples/seckill/internal/store"
)

func TestAnAddressSaysWhatAndWhereButNoPassword(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite:sale.db": "SQLite file sale.db",
		"sqlite:///var/sale.db?synchronous=normal":               "SQLite file /var/sale.db",
		"mysql://root:s3cret@db:3307/sale":                       `MySQL database "sale" at db:3307`,
		"mariadb://root:s3cret@db/sale?tls=skip-verify":          `MySQL database "sale" at db:3306`,
		"mysql://root:s%2Fcret@[::1]/sale":                       `MySQL database "sale" at [::1]:3306`,
		"mysql://root@/sale?socket=/run/mysqld.sock":             `MySQL database "sale" at /run/mysqld.sock`,
		"postgres://pg:s3cret@db/sale?sslmode=disable":           `PostgreSQL database "sale" at db:5432`,
		"postgresql://pg:s3cret@db:5433/sale?sslmode=disable":    `PostgreSQL database "sale" at db:5433`,
		"postgres://pg@db/sale?password=s3cret@s3cret":           `PostgreSQL database "sale" at db:5432`,
		"postgres://pg:s3cret@/sale?host=/run/postgresql&port=1": `PostgreSQL database "sale" at /run/postgresql`,
	} {
		address, err := store.ParseAddress(text)
		if err != nil || address.String() != want {
			t.Errorf("%s: %q, %v, want %q", text, address, err, want)
		}
	}
}

func TestAWrongAddressIsRefusedWithoutItsPassword(t *testing.T) {
	for text, want := range map[string]string{
		"":                                             "must be sqlite:PATH",
		"sale.db":                                      "must be sqlite:PATH",
		"oracle://sys:s3cret@db/sale":                  `unknown database "oracle"`,
		"password=s3cret host=::1 dbname=x":            "must be sqlite:PATH",
		"host=h password=s3cret:x dbname=x":            "must be sqlite:PATH",
		"sqlite:":                                      "a file is needed",
		"sqlite::memory:":                              "a file is needed",
		"sqlite:sale.db?mode=ro":                       "unknown parameter mode=ro",
		"sqlite:sale.db?mode=full":                     "unknown parameter mode=full",
		"sqlite:sale.db?synchronous=off":               "unknown parameter synchronous=off",
		"sqlite:sale.db?%zz":                           "malformed parameters",
		"mysql://root:s3cret@db":                       "a database is needed",
		"mysql://root:s3cret@db/a/b":                   "a database is needed",
		"mysql://root:s3cret@db:port/sale":             "malformed URL",
		"mysql://root:12/s3cret@db":                    "a database is needed",
		"mysql://root:12#s3cret@db/sale":               "malformed URL",
		"postgres://pg:12/s3cret@db":                   "malformed URL",
		"mysql://root:s3cret/@db/sale":                 "malformed URL",
		"mysql://root:s3cret@db/sale?timeout=x":        "invalid duration",
		"mysql://u:s3cret@h/db?tls=true;timeout=3s":    "malformed parameters",
		"mysql://u:s3cret@h/db?tls=true&collation=%zz": "malformed parameters",
		"postgres://u:s3cret@h/db?sslmode=require;connect_timeout=3": "malformed URL or parameter",
		"postgres://u:s3cret@h/db?sslmode=require&host=%zz":          "malformed URL or parameter",
		"postgres://pg:s3cret@db":                                    "a database is needed",
		"postgres:pg:s3cret@db/sale":                                 "malformed URL",
		"mysql:root:s3cret@db/sale":                                  "a database is needed",
		"postgres://pg:12/s3cret?x@db/sale":                          "malformed URL",
		"postgres://pg:12/s3cret#x@db/sale":                          "malformed URL",
		"postgres://pg:@/s3cret#x@db/sale":                           "malformed URL",
		"mysql://root:12/s3cret?x@db/sale":                           "malformed URL",
		"postgres://pg:12@s3cret@db/sale":                            "malformed URL",
		"postgres://pg:12@a,s3cret@db/sale":                          "malformed URL",
		"postgres://pg:s3cret@db:port/sale":                          "malformed URL",
		"postgres://pg:s3cret@db/sale?sslmode=x":                     "malformed URL or parameter",
	} {
		_, err := store.ParseAddress(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: error %v, want one with %q and without the password", text, err, want)
		}
	}
}

func TestOpenSaysWhatCannotBeOpenedAndWhere(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	other := "sqlite:" + filepath.Join(folder, "other.db")
	if err := open(t, other).Exec(t.Context(), "DROP TABLE goose_db_version"); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		other: "migrate: ",
		"sqlite:" + filepath.Join(folder, "absent", "sale.db"): filepath.Join(folder, "absent", "sale.db"),
		"sqlite:" + text:                                        "not a database",
		"mysql://root:s3cret@127.0.0.1:1/sale":                  `MySQL database "sale" at 127.0.0.1:1: `,
		"postgres://pg:s3cret@127.0.0.1:1/sale?sslmode=disable": `PostgreSQL database "sale" at 127.0.0.1:1: `,
	} {
		_, err := tryOpen(t, address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v, want one with %q and without the password", address, err, want)
		}
	}
}

func TestSQLiteIsAsSafeAsItsAddressSays(t *testing.T) {
	for parameter, want := range map[string]int{"": 2, "?synchronous=full": 2, "?synchronous=normal": 1, "?synchronous=NORMAL": 1} {
		address, err := store.ParseAddress(sqliteFile(t) + parameter)
		if err != nil {
			t.Fatal(err)
		}
		connector, err := sqlite.NewConnector(address.SQLite())
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		var got int
		if err := db.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&got); err != nil || got != want {
			t.Errorf("%q: synchronous is %d, %v, want %d", parameter, got, err, want)
		}
		_ = db.Close()
	}
}

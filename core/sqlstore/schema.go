package sqlstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/redlatch/redlatch/core/internal/sqldialect"
	"github.com/redlatch/redlatch/core/lock"
)

// Dialect is the SQL that a database speaks: [SQLite], [MySQL] or [PostgreSQL].
type Dialect = sqldialect.Dialect

const (
	// SQLite from version 3.41, for the processes of one machine.
	SQLite = sqldialect.SQLite
	// MySQL from version 8, and MariaDB from version 10.6.
	MySQL = sqldialect.MySQL
	// PostgreSQL from version 12.
	PostgreSQL = sqldialect.PostgreSQL
)

//go:embed migrations
var migrations embed.FS

// folders are those of the migrations.
var folders = map[Dialect]string{SQLite: "sqlite", MySQL: "mysql", PostgreSQL: "postgresql"}

// Migrations returns the statements that create the three tables, as files that are applied
// in the order of their names: with goose, after a copy and a rename with Flyway, by hand
// or by [Store.Migrate]. Each of them may run again. For an unknown dialect it returns an
// empty file system.
func Migrations(d Dialect) fs.FS {
	folder, known := folders[d]
	if !known {
		return embed.FS{}
	}
	files, err := fs.Sub(migrations, "migrations/"+folder)
	if err != nil { // the name is ours, and valid
		return embed.FS{}
	}
	return files
}

// ddl returns the statements of the migrations, in order.
func ddl(d Dialect) (all []string, err error) {
	files := Migrations(d)
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		for statement := range strings.SplitSeq(uncommented(string(text)), ";") {
			if statement = strings.TrimSpace(statement); statement != "" {
				all = append(all, statement)
			}
		}
	}
	return all, nil
}

// uncommented is SQL without its comments.
func uncommented(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		kept.WriteString(strings.TrimRight(code, " \n") + "\n")
	}
	return kept.String()
}

// Migrate creates the tables unless they exist. The database user needs the right to. It
// returns the error of the database.
func (s *Store) Migrate(ctx context.Context) error {
	statements, err := ddl(s.keys.dialect)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		// Of two instances that create a table at once, one fails in PostgreSQL.
		_, err := s.keys.db.ExecContext(ctx, statement)
		for range 3 {
			if err == nil || pause(ctx, 20) != nil {
				break
			}
			_, err = s.keys.db.ExecContext(ctx, statement)
		}
		if err != nil {
			return fmt.Errorf("sqlstore: migrate: %w", err)
		}
	}
	return nil
}

// Check tests at start-up whether locks of the given modes can be taken: by default
// exclusive ones. It looks whether the tables are there and have the columns, and whether
// the database user may use them: it takes, renews and releases locks on keys that nobody
// else uses. Its error wraps [lock.ErrUnavailable], and says which statements are missing.
// It is for operators.
func (s *Store) Check(ctx context.Context, modes ...lock.Mode) error {
	if len(modes) == 0 {
		modes = []lock.Mode{lock.Exclusive}
	}
	if err := s.check(ctx, modes); err != nil {
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	return nil
}

// probes read the columns that the store needs of each table.
var probes = []struct{ table, statement string }{
	{"redlatch_locks", "SELECT id, name, owner, mode, expires, fence, version, waited, more FROM redlatch_locks WHERE 1 = 0"},
	{"redlatch_meta", "SELECT one, floor FROM redlatch_meta WHERE 1 = 0"},
	{"redlatch_lockers", "SELECT id, registration, expires FROM redlatch_lockers WHERE 1 = 0"},
}

func (s *Store) check(ctx context.Context, modes []lock.Mode) error {
	if err := s.keys.db.PingContext(ctx); err != nil {
		return err
	}
	statements, err := ddl(s.keys.dialect)
	if err != nil {
		return err
	}
	for _, probe := range probes {
		rows, err := s.keys.db.QueryContext(ctx, probe.statement)
		if err == nil {
			err = rows.Close()
		}
		if err != nil {
			return fmt.Errorf("the table %s cannot be read: %w (call Store.Migrate, or run: %s)", probe.table, err, about(statements, probe.table))
		}
	}
	var n int
	if err := s.keys.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM redlatch_meta").Scan(&n); err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("redlatch_meta has %d rows, want one (run: %s)", n, statements[len(statements)-1])
	}
	for _, m := range modes {
		if err := s.keys.try(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// about returns those of the statements that name the table.
func about(statements []string, table string) string {
	var found []string
	for _, statement := range statements {
		if strings.Contains(statement, table) {
			found = append(found, strings.Join(strings.Fields(statement), " ")+";")
		}
	}
	return strings.Join(found, " ")
}

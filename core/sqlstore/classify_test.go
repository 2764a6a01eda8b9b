package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/redlatch/redlatch/core/lock"
)

type pgError string

func (e pgError) Error() string    { return "ERROR: something (SQLSTATE " + string(e) + ")" }
func (e pgError) SQLState() string { return string(e) }

type sqliteError int

func (e sqliteError) Error() string { return fmt.Sprint("error ", int(e)) }
func (e sqliteError) Code() int     { return int(e) }

type safe struct{ error }

func (safe) SafeToRetry() bool { return true }
func (s safe) Unwrap() error   { return s.error }

var (
	errDial = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	errRead = &net.OpError{Op: "read", Err: syscall.ECONNRESET}
)

func TestFailuresSayWhetherTheCallRan(t *testing.T) {
	const no, unknown, refused = lock.OutcomeNotExecuted, lock.OutcomeUnknown, lock.OutcomeRefused
	for _, c := range []struct {
		dialect Dialect
		err     error
		outcome lock.Outcome
		class   string
		again   bool
	}{
		{PostgreSQL, pgError("40001"), no, "conflict", true},
		{PostgreSQL, pgError("40P01"), no, "conflict", true},
		{PostgreSQL, pgError("40003"), unknown, "error reply", false},
		{PostgreSQL, pgError("55P03"), no, "row locked", false},
		{PostgreSQL, pgError("53300"), no, "no resources", false},
		{PostgreSQL, pgError("57014"), no, "canceled by the database", false},
		{PostgreSQL, pgError("57P01"), unknown, "shutdown", false},
		{PostgreSQL, pgError("25006"), no, "read only", false},
		{PostgreSQL, pgError("42P01"), refused, "no schema", false},
		{PostgreSQL, pgError("42501"), refused, "no permission", false},
		{PostgreSQL, pgError("42P05"), refused, "prepared statements behind a pooler", false},
		{PostgreSQL, pgError("08006"), unknown, "error reply", false},
		{PostgreSQL, pgError("XX000"), unknown, "error reply", false},
		{PostgreSQL, pgError(""), unknown, "error reply", false},
		{PostgreSQL, fmt.Errorf("wrapped: %w", pgError("40001")), no, "conflict", true},
		{MySQL, errors.New("Error 1213 (40001): Deadlock found when trying to get lock"), no, "conflict", true},
		{MySQL, errors.New("Error 1205 (HY000): Lock wait timeout exceeded"), no, "row locked", false},
		{MySQL, errors.New("Error 1290: The MySQL server is running with the --read-only option"), no, "read only", false},
		{MySQL, errors.New("Error 1146 (42S02): Table doesn't exist"), refused, "no schema", false},
		{MySQL, errors.New("Error 9999 (HY000): something new"), unknown, "error reply", false},
		{MySQL, errors.New("invalid connection"), unknown, "", false},
		{SQLite, sqliteError(5), no, "conflict", true},
		{SQLite, sqliteError(5 | 2<<8), no, "conflict", true},
		{SQLite, sqliteError(13), no, "no resources", false},
		{SQLite, sqliteError(10), unknown, "error reply", false},
		{SQLite, errors.New("database is locked"), no, "conflict", true},
		{PostgreSQL, errDial, no, "connection refused", false},
		{PostgreSQL, driver.ErrBadConn, no, "connection lost", true},
		{PostgreSQL, sql.ErrConnDone, no, "", true},
		{PostgreSQL, safe{io.EOF}, no, "connection lost", true},
		{PostgreSQL, errRead, unknown, "connection lost", false},
		{PostgreSQL, io.ErrUnexpectedEOF, unknown, "connection lost", false},
		{PostgreSQL, context.DeadlineExceeded, unknown, "timeout", false},
		{PostgreSQL, context.Canceled, unknown, "canceled", false},
	} {
		k := &keys{dialect: c.dialect}
		failed, ok := errors.AsType[*lock.StoreError](k.failure(c.err))
		if !ok || failed.Outcome != c.outcome || failed.Class != c.class || !errors.Is(failed, c.err) {
			t.Errorf("%v: %+v; want outcome %d, class %q", c.err, failed, c.outcome, c.class)
		}
		if again := k.isRolledBack(c.err); again != c.again {
			t.Errorf("%v: repeated: %v, want %v", c.err, again, c.again)
		}
	}
}

func TestNewRefusesAWrongSetUp(t *testing.T) {
	db := new(sql.DB)
	for name, err := range map[string]error{
		"no pool":              second(New(nil, SQLite)),
		"unknown dialect":      second(New(db, 0)),
		"no logger":            second(New(db, SQLite, WithLogger(nil))),
		"listener of another":  second(New(db, MySQL, WithListener(nobody{}))),
		"another one's number": second(New(db, 4)),
	} {
		if !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func second(_ *Store, err error) error { return err }

type nobody struct{}

func (nobody) Listen(context.Context, string, func(), func(string)) error { return nil }

// The columns say what rows of other versions mean.
func TestModesAreStoredByNumber(t *testing.T) {
	for m, number := range map[lock.Mode]int{lock.Exclusive: 0, lock.Fair: 1, lock.Read: 2, lock.Write: 3, lock.Semaphore: 4} {
		if int(m) != number {
			t.Errorf("mode %s is %d, want %d", m, m, number)
		}
	}
}

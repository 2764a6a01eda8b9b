package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// halfway is a database that runs updates, and is gone for the look that follows.
type halfway struct{ changed int64 }

var errGone = errors.New("gone")

func (h halfway) Connect(context.Context) (driver.Conn, error) { return h, nil }
func (halfway) Driver() driver.Driver                          { return nil }
func (halfway) Prepare(string) (driver.Stmt, error)            { return nil, errGone }
func (halfway) Close() error                                   { return nil }
func (halfway) Begin() (driver.Tx, error)                      { return nil, errGone }

func (h halfway) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(h.changed), nil
}

func (halfway) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, errDial // says that nothing was sent, which is true of itself only
}

// MySQL says how many were renewed, not which: if the look for that fails, the renewal may
// have run.
func TestARenewalWhoseSecondLookFailsIsUnknown(t *testing.T) {
	db := sql.OpenDB(halfway{changed: 1})
	defer db.Close()
	s, err := New(db, MySQL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	claims := []lock.Claim{{Key: "a", Owner: "a:1", TTL: time.Minute}, {Key: "b", Owner: "a:2", TTL: time.Minute}}
	reported := 0
	s.Renew(ctx, claims, func(_ int, err error) {
		reported++
		failed, ok := errors.AsType[*lock.StoreError](err)
		if !ok || failed.Outcome != lock.OutcomeUnknown {
			t.Errorf("got %v, want an unknown outcome", err)
		}
	})
	if reported != len(claims) {
		t.Errorf("%d reports", reported)
	}
}

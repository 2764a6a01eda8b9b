package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"modernc.org/sqlite"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// lossy is a database whose connection breaks behind a commit.
type lossy struct {
	driver.Connector
	committed func() // called behind the commit whose answer is lost; nil: no answer is
}

func (l *lossy) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := l.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return lossyConn{c.(conn), l}, nil
}

// conn is what database/sql needs of a connection.
type conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type lossyConn struct {
	conn
	db *lossy
}

func (c lossyConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.conn.BeginTx(ctx, options)
	return lossyTx{tx, c.db}, err
}

type lossyTx struct {
	driver.Tx
	db *lossy
}

func (t lossyTx) Commit() error {
	err := t.Tx.Commit()
	committed := t.db.committed
	if err != nil || committed == nil {
		return err
	}
	t.db.committed = nil
	committed()
	return driver.ErrBadConn
}

// openLossy returns a store twice: as it is, and with writes that go through a lossy
// database.
func openLossy(t *testing.T) (s, through *store.Store, db *lossy) {
	t.Helper()
	address := sqliteFile(t)
	s = open(t, address)
	parsed, err := store.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := sqlite.NewConnector(parsed.SQLite())
	if err != nil {
		t.Fatal(err)
	}
	db = &lossy{Connector: connector}
	pool := sql.OpenDB(db)
	t.Cleanup(func() { _ = pool.Close() })
	return s, s.Through(pool), db
}

// The answer to a first attempt is lost, and the user's next request comes before the
// second one: ErrStaleFence would say that nothing was done.
func TestAnAttemptThatMayHaveWorkedIsNoStaleFence(t *testing.T) {
	s, through, db := openLossy(t)
	user := someone(t)
	next := func(token uint64) {
		if err := s.PlaceOrder(t.Context(), orderOf(t, onSale(t, s, 1), user, token, "next")); err != nil {
			t.Errorf("the next request: %v", err)
		}
	}
	order := orderOf(t, onSale(t, s, 1), user, 1, "o:1")
	db.committed = func() { next(2) }
	wantErr(t, through.PlaceOrder(t.Context(), order), voucher.ErrStoreUnavailable)
	if _, err := s.Order(t.Context(), order.ID); err != nil {
		t.Errorf("the order was not placed: %v", err)
	}

	db.committed = func() { next(4) }
	wantErr(t, through.CancelOrder(t.Context(), order.ID, user, fence.New(3, "o:2")), voucher.ErrStoreUnavailable)
	_, err := s.Order(t.Context(), order.ID)
	wantErr(t, err, voucher.ErrOrderNotFound)
}

package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// lossy is a database whose connection breaks at the next commit, or where it creates the
// next voucher.
type lossy struct {
	driver.Connector
	committed  func() // called behind the commit whose answer is lost; nil: no answer is
	rolledBack func() // called behind a rollback instead of the commit; nil: there is none
	created    bool   // the answer to a new voucher is lost
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

func (c lossyConn) ExecContext(ctx context.Context, statement string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.conn.ExecContext(ctx, statement, args)
	if err == nil && c.db.created && strings.HasPrefix(statement, `INSERT INTO "vouchers"`) {
		c.db.created = false
		return nil, io.ErrUnexpectedEOF
	}
	return result, err
}

type lossyTx struct {
	driver.Tx
	db *lossy
}

func (t lossyTx) Commit() error {
	if rolledBack := t.db.rolledBack; rolledBack != nil {
		err := t.Tx.Rollback()
		rolledBack()
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
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

// What an attempt did whose answer is lost is found out by the next one.
func TestAnAttemptWithoutAnAnswerIsTriedAgain(t *testing.T) {
	s, through, db := openLossy(t)
	lost := func() {}
	db.created = true
	v := voucher.Voucher{ID: newID(t), Title: "x", Stock: 1, Remaining: 1, BeginAt: time.Now(), EndAt: time.Now(), CreatedAt: time.Now()}
	if err := through.CreateVoucher(t.Context(), v); err != nil || db.created {
		t.Errorf("a voucher that was created: %v", err)
	}
	wantErr(t, through.CreateVoucher(t.Context(), v), voucher.ErrStoreUnavailable) // that of another

	o := orderOf(t, v, someone(t), 1, "o:1")
	db.committed = lost
	if err := through.PlaceOrder(t.Context(), o); err != nil || db.committed != nil {
		t.Errorf("an order that was placed: %v", err)
	}
	wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
	db.committed = lost
	if err := through.CancelOrder(t.Context(), o.ID, o.UserID, fence.New(2, "o:2")); err != nil || db.committed != nil {
		t.Errorf("an order that was canceled: %v", err)
	}
	wantReport(t, s, v, voucher.Report{})

	// It wasn't placed, and another user gets the last one.
	db.rolledBack = func() {
		db.rolledBack = nil
		if err := s.PlaceOrder(t.Context(), orderOf(t, v, someone(t), 1, "o:1")); err != nil {
			t.Error(err)
		}
	}
	wantErr(t, through.PlaceOrder(t.Context(), orderOf(t, v, someone(t), 1, "o:1")), voucher.ErrSoldOut)
	wantReport(t, s, v, voucher.Report{Sold: 1, Orders: 1, DistinctUsers: 1})
}

func TestWhatNeverSucceedsIsGivenUp(t *testing.T) {
	s, through, db := openLossy(t)
	v := onSale(t, s, 1)
	attempts := 0
	db.rolledBack = func() { attempts++ }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wantErr(t, through.PlaceOrder(ctx, orderOf(t, v, someone(t), 1, "o:1")), voucher.ErrStoreUnavailable)
	if attempts < 2 {
		t.Errorf("%d attempts, want several", attempts)
	}
	wantReport(t, s, v, voucher.Report{})
}

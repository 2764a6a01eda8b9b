package stage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// book is the database of a lane.
type book interface {
	// open puts that many on sale.
	open(ctx context.Context, stock int) error
	// look is the first half of an order: what is left, or why there is nothing for the user.
	look(ctx context.Context, user string) (left int, err error)
	// write is the second half. token is what the caller's lock shows, if it has one.
	write(ctx context.Context, user string, left int, token fence.Token) error
	// verdict counts the orders.
	verdict(ctx context.Context) (verdict, error)
	close() error
}

// verdict is what the database says about the sale.
type verdict struct {
	Stock  int `json:"stock"`
	Left   int `json:"left"`
	Orders int `json:"orders"`
	// Twice is how many users have more than one order.
	Twice int       `json:"twice"`
	At    time.Time `json:"at"`
}

// beginner keeps a sale as beginners do: look, and then write what was seen, in separate
// statements, without a unique index.
type beginner struct{ db *sql.DB }

func openBeginner(ctx context.Context, folder, name string) (*beginner, error) {
	connector, err := sqlite.NewConnector("file:" + filepath.ToSlash(filepath.Join(folder, name+".db")) + "?_journal_mode=wal&_synchronous=off&_busy_timeout=5000")
	if err != nil {
		return nil, err
	}
	b := &beginner{sql.OpenDB(connector)}
	b.db.SetMaxOpenConns(4)
	_, err = b.db.ExecContext(ctx, "CREATE TABLE sale (stock INTEGER, left INTEGER); CREATE TABLE orders (user TEXT)")
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *beginner) open(ctx context.Context, stock int) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // unless it is committed
	if _, err := tx.ExecContext(ctx, "DELETE FROM orders; DELETE FROM sale"); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO sale VALUES (?, ?)", stock, stock); err != nil {
		return err
	}
	return tx.Commit()
}

func (b *beginner) look(ctx context.Context, user string) (left int, err error) {
	var has int
	err = b.db.QueryRowContext(ctx, "SELECT left, (SELECT COUNT(*) FROM orders WHERE user = ?) FROM sale", user).Scan(&left, &has)
	switch {
	case err != nil:
		return 0, err
	case has > 0:
		return 0, voucher.ErrAlreadyOrdered
	case left < 1:
		return 0, voucher.ErrSoldOut
	}
	return left, nil
}

func (b *beginner) write(ctx context.Context, user string, left int, _ fence.Token) error {
	if _, err := b.db.ExecContext(ctx, "UPDATE sale SET left = ?", left-1); err != nil { // page: beginner
		return err
	}
	_, err := b.db.ExecContext(ctx, "INSERT INTO orders VALUES (?)", user)
	return err
}

func (b *beginner) verdict(ctx context.Context) (v verdict, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT stock, left, (SELECT COUNT(*) FROM orders),
		(SELECT COUNT(*) FROM (SELECT user FROM orders GROUP BY user HAVING COUNT(*) > 1)) FROM sale`). // page: verdict
		Scan(&v.Stock, &v.Left, &v.Orders, &v.Twice)
	v.At = time.Now()
	return v, err
}

func (b *beginner) close() error { return b.db.Close() }

// guarded is the store of the service: see its WriteOrder.
type guarded struct {
	store *store.Store
	id    atomic.Value // of the voucher, a string
}

func openGuarded(ctx context.Context, folder string) (*guarded, error) {
	address, err := store.ParseAddress("sqlite:" + filepath.Join(folder, "guarded.db") + "?synchronous=normal")
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	return &guarded{store: s}, nil
}

func (g *guarded) open(ctx context.Context, stock int) error {
	now := time.Now()
	v, err := voucher.NewService(g.store, patience).Create(ctx, voucher.Draft{
		Title: "stage", Stock: int64(stock), BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour),
	})
	g.id.Store(v.ID)
	return err
}

func (g *guarded) voucher() string { return g.id.Load().(string) }

func (g *guarded) look(ctx context.Context, user string) (left int, err error) {
	switch has, err := g.store.Ordered(ctx, g.voucher(), user); {
	case err != nil:
		return 0, err
	case has:
		return 0, voucher.ErrAlreadyOrdered
	}
	v, err := g.store.Voucher(ctx, g.voucher())
	switch {
	case err != nil:
		return 0, err
	case v.Remaining < 1:
		return 0, voucher.ErrSoldOut
	}
	return int(v.Remaining), nil
}

func (g *guarded) write(ctx context.Context, user string, _ int, token fence.Token) error {
	o, err := voucher.NewOrder(g.voucher(), user, token, time.Now())
	if err != nil {
		return err
	}
	return g.store.WriteOrder(ctx, o)
}

func (g *guarded) verdict(ctx context.Context) (verdict, error) {
	r, err := g.store.Count(ctx, g.voucher())
	if err != nil {
		return verdict{}, fmt.Errorf("verdict: %w", err)
	}
	return verdict{
		Stock: int(r.Stock), Left: int(r.Stock - r.Sold), Orders: int(r.Orders), Twice: int(r.DuplicateOrders()), At: time.Now(),
	}, nil
}

func (g *guarded) close() error { return g.store.Close() }

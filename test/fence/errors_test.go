package fence_test

import (
	"context"
	"database/sql"
	"testing"

	"gorm.io/gorm"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// TestErrorsOfFencesInTheManual: what docs/errors.md quotes is what a user gets who makes
// the mistake, here with GORM on SQLite.
func TestErrorsOfFencesInTheManual(t *testing.T) {
	ctx := t.Context()
	orm, db := gormOn(t, "SQLite")
	for _, statement := range []string{
		"CREATE TABLE stock (id BIGINT PRIMARY KEY, fence BIGINT NOT NULL DEFAULT 0, fence_owner VARCHAR(32) NOT NULL DEFAULT '')",
		"INSERT INTO stock (id) VALUES (7)",
		"CREATE TABLE plain (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)",
		"CREATE TABLE loose (id BIGINT PRIMARY KEY, fence BIGINT, fence_owner VARCHAR(32))",
		"INSERT INTO loose (id) VALUES (7)",
	} {
		db.exec(t, db, statement)
	}
	locker := guardtest.Locker(t, memstore.New())
	table := func(d fence.Dialect, name string) *fence.Table {
		made, err := fence.NewTable(d, name, fence.Columns{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	stock := table(fence.SQLite, "stock")
	guards, err := fence.NewGuards(fence.SQLite, "guards", fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	claim := func(table *fence.Table, id int, token fence.Token) error {
		return orm.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return table.Claim(ctx, tx.Statement.ConnPool, id, token) })
	}
	inTx := func(locker *lock.Locker, fn func(context.Context, *sql.Tx) error) error {
		return stock.InTx(ctx, locker, db, "stock:7", 7, fn)
	}
	nothing := func(context.Context, *sql.Tx) error { return nil }
	late, newer := tokens(t)
	if err := claim(stock, 7, newer); err != nil {
		t.Fatal(err)
	}
	at := guardtest.AtStart
	returned := func(code string, err error) guardtest.Mistake { return guardtest.Returned(code, "the error", err) }
	guardtest.Listed(t, "../../docs/errors.md", "Fences and GORM", []guardtest.Mistake{
		at(`fence.NewTable(fence.SQLite, "my stock", fence.Columns{})`, func() error {
			_, err := fence.NewTable(fence.SQLite, "my stock", fence.Columns{})
			return err
		}()),
		at(`plain.Check(ctx, db) // a table without the columns`, table(fence.SQLite, "plain").Check(ctx, db)),
		at(`guards.Check(ctx, db) // without guards.Schema() in the migrations`, guards.Check(ctx, db)),
		at(`stock.Check(ctx, db) // fence.NewTable(fence.MySQL, …), and db is SQLite`, table(fence.MySQL, "stock").Check(ctx, db)),
		returned(`stock.Claim(ctx, tx.Statement.ConnPool, 8, token) // there is no row 8`, claim(stock, 8, newer)),
		returned(`loose.Claim(ctx, tx.Statement.ConnPool, 7, token) // columns that may be NULL`, claim(table(fence.SQLite, "loose"), 7, newer)),
		returned(`stock.Claim(ctx, tx.Statement.ConnPool, 7, token) // after a newer holder`, claim(stock, 7, late)),
		returned(`stock.Claim(ctx, tx.Statement.ConnPool, 7, fence.Token{})`, claim(stock, 7, fence.Token{})),
		returned(`var stock fence.Table // and not fence.NewTable`, claim(&fence.Table{}, 7, newer)),
		returned(`lease, _ := lock.FromContext(ctx); fence.Of(lease) // outside of locker.Do`, func() error {
			lease, _ := lock.FromContext(ctx)
			_, err := fence.Of(lease)
			return err
		}()),
		returned(`locker.Do(ctx, key, work, lock.WithMode(lock.Read)) // work calls fence.Of`, locker.Do(ctx, "stock:7", func(ctx context.Context) error {
			lease, _ := lock.FromContext(ctx)
			_, err := fence.Of(lease)
			return err
		}, lock.WithMode(lock.Read))),
		returned(`stock.InTx(ctx, nil, db, "stock:7", 7, work)`, inTx(nil, nothing)),
		returned(`locker.Do(ctx, "stock:7", work) // work calls stock.InTx(ctx, locker, db, "stock:7", …)`, locker.Do(ctx, "stock:7", func(inside context.Context) error {
			return stock.InTx(inside, locker, db, "stock:7", 7, nothing)
		})),
		returned(`stock.InTx(ctx, locker, db, "stock:7", 7, work) // work calls tx.Commit`, inTx(locker, func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })),
	})
}

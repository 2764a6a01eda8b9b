package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

func TestNamesThatCouldBeStatementsAreRefused(t *testing.T) {
	for _, name := range []string{
		"", " ", "a b", "a;b", "a`b", `a"b`, "a'b", "a--", "a.b.c", ".a", "a.", "1a", "é", "a\x00", strings.Repeat("a", 64),
	} {
		for _, d := range []fence.Dialect{fence.SQLite, fence.MySQL, fence.PostgreSQL} {
			if _, err := fence.NewTable(d, name, fence.Columns{}); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("table %q: %v", name, err)
			}
			if _, err := fence.NewGuards(d, name, fence.Columns{}); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("guards %q: %v", name, err)
			}
			if name == "" {
				continue // the default
			}
			for _, c := range []fence.Columns{{Key: name}, {Fence: name}, {Owner: name}} {
				if _, err := fence.NewTable(d, "stock", c); !errors.Is(err, lock.ErrInvalid) {
					t.Errorf("columns %+v: %v", c, err)
				}
			}
		}
	}
	for _, d := range []fence.Dialect{0, fence.PostgreSQL + 1} {
		if _, err := fence.NewTable(d, "stock", fence.Columns{}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
}

func TestAColumnThatIsNamedTwiceIsRefused(t *testing.T) {
	for _, c := range []struct {
		columns fence.Columns
		column  string
		quoted  bool // it is another one in PostgreSQL, where names have quotes
	}{
		{fence.Columns{Fence: "id"}, "id", false},
		{fence.Columns{Key: "fence"}, "fence", false},
		{fence.Columns{Key: "k", Fence: "f", Owner: "f"}, "f", false},
		{fence.Columns{Key: "k", Owner: "K"}, "K", true},
	} {
		for _, d := range []fence.Dialect{fence.SQLite, fence.MySQL, fence.PostgreSQL} {
			_, table := fence.NewTable(d, "stock", c.columns)
			_, guards := fence.NewGuards(d, "guards", c.columns)
			for _, err := range []error{table, guards} {
				if other := c.quoted && d == fence.PostgreSQL; other && err != nil {
					t.Errorf("%+v in PostgreSQL: %v", c.columns, err)
				} else if !other && (!errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), strconv.Quote(c.column))) {
					t.Errorf("%+v: %v, want an error that names the column", c.columns, err)
				}
			}
		}
	}
}

func TestTheConditionOfAWriteFitsItsStatement(t *testing.T) {
	token := fence.New(7, "o:1")
	for d, want := range map[fence.Dialect]string{
		fence.SQLite:     "`fence` = ? AND `fence_owner` = ?",
		fence.MySQL:      "`fence` = ? AND `fence_owner` = ?",
		fence.PostgreSQL: `"fence" = $3 AND "fence_owner" = $4`,
	} {
		table, err := fence.NewTable(d, "public.stock", fence.Columns{})
		if err != nil {
			t.Fatal(err)
		}
		got, args := table.Where(token, 3)
		if got != want || len(args) != 2 || args[0] != int64(7) || args[1] != token.Owner {
			t.Errorf("%v: %s %v, want %s", d, got, args, want)
		}
	}
}

// eager is a database that affects one row with whatever it is sent, or with nothing.
type eager struct{ fence.Conn }

func (eager) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return driver.RowsAffected(1), nil
}

// Not every driver refuses a statement that is empty.
func TestWhatNoConstructorMadeClaimsNothing(t *testing.T) {
	var (
		table  fence.Table
		guards fence.Guards
		token  = fence.New(7, "an owner")
	)
	for name, err := range map[string]error{
		"Table.Claim":   table.Claim(t.Context(), eager{}, 1, token),
		"Table.Confirm": table.Confirm(t.Context(), eager{}, 1, token, driver.RowsAffected(1)),
		"Guards.Claim":  guards.Claim(t.Context(), eager{}, "k", token),
		"Table.Check":   table.Check(t.Context(), eager{}),
		"Guards.Check":  guards.Check(t.Context(), eager{}),
		"Table.InTx":    table.InTx(t.Context(), nil, nil, "k", 1, nil),
		"Guards.InTx":   guards.InTx(t.Context(), newLocker(t), nil, "k", nil),
		"Table.InTxAll": table.InTxAll(t.Context(), nil, nil, nil, nil),
	} {
		if !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, lock.ErrInvalid)
		}
	}
}

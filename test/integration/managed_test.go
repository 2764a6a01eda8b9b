package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/storetest"
	"github.com/redlatch/redlatch/test/internal/managed"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// rented is a store on a Redis as a product offers it.
type rented struct {
	rdb    *redis.Client
	opts   []redisstore.Option
	store  *redisstore.Store
	behind *redisstore.Store // on the same Redis, past the rules
}

// features are the columns of the table in docs/managed-redis.md. Each returns
// an error if the product refuses it.
var features = []struct {
	column string
	modes  []lock.Mode // whose contract is kept
	use    func(ctx context.Context, r rented, key string) error
}{
	{"exclusive", []lock.Mode{lock.Exclusive}, checks(lock.Exclusive)},
	{"fair", []lock.Mode{lock.Fair}, checks(lock.Fair)},
	{"read, write", []lock.Mode{lock.Read, lock.Write}, checks(lock.Read, lock.Write)},
	{"semaphore", []lock.Mode{lock.Semaphore}, checks(lock.Semaphore)},
	{"`Inspect`", nil, func(ctx context.Context, r rented, key string) error {
		_, err := r.store.Inspect(ctx, key)
		return err
	}},
	{"`ForceRelease`", nil, func(ctx context.Context, r rented, key string) error {
		if _, err := lock.Blocking(r.behind).Acquire(ctx, claimOf(ownerA, key)); err != nil {
			return fmt.Errorf("past the rules: %w", err)
		}
		_, err := r.store.ForceRelease(ctx, key)
		return err
	}},
	{"latch", nil, func(ctx context.Context, r rented, key string) error {
		latch := redisstore.NewLatch(r.store, key)
		return errors.Join(latch.TrySet(ctx, 1), latch.CountDown(ctx))
	}},
	{"`WithReplicas`", nil, func(ctx context.Context, r rented, _ string) error {
		return redisstore.New(r.rdb, append(r.opts, redisstore.WithReplicas(1, 2*time.Second))...).Check(ctx)
	}},
	{"`WithQuarantine`", nil, func(ctx context.Context, r rented, _ string) error {
		return redisstore.New(r.rdb, append(r.opts, redisstore.WithQuarantine(time.Millisecond))...).Check(ctx)
	}},
}

func checks(modes ...lock.Mode) func(context.Context, rented, string) error {
	return func(ctx context.Context, r rented, _ string) error { return r.store.Check(ctx, modes...) }
}

// settings are the options that the table names.
var settings = map[string]redisstore.Option{
	"`WithSETNX`":            redisstore.WithSETNX(),
	"`WithoutScriptPublish`": redisstore.WithoutScriptPublish(),
	"`WithoutScriptTime`":    redisstore.WithoutScriptTime(),
}

// TestTheRulesOfProducts holds docs/managed-redis.md to what happens under the
// rules of each product: what its table says works keeps the whole contract,
// and what it says doesn't is refused. "In part" is what can be used, and does
// not keep the whole contract, as the page says below the table.
func TestTheRulesOfProducts(t *testing.T) {
	columns, rows := productTable(t)
	for _, feature := range features {
		if !slices.Contains(columns, feature.column) {
			t.Errorf("docs/managed-redis.md has no column %q", feature.column)
		}
	}
	for _, product := range managed.Products {
		if !slices.ContainsFunc(rows, func(row map[string]string) bool { return row["product"] == product.Name }) {
			t.Errorf("docs/managed-redis.md does not have %q", product.Name)
		}
	}
	server := redistest.Standalone(t, "--appendonly", "yes")
	_, _ = follow(t, server)
	// Check reports no more than that about a server that is in quarantine.
	eventually(t, func() error {
		info := server.Admin(t).InfoMap(t.Context(), "server").Item("Server", "uptime_in_seconds")
		if up, err := strconv.Atoi(info); err != nil || up < 2 {
			return fmt.Errorf("up for %q seconds", info)
		}
		return nil
	})
	for _, row := range rows {
		name := row["product"] + " " + row["options"]
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time nothing happens
			found := slices.IndexFunc(managed.Products, func(p managed.Product) bool { return p.Name == row["product"] })
			if found < 0 {
				t.Fatal("its rules are not known")
			}
			rdb := newClient(t, &redis.Options{Addr: managed.Products[found].Serve(t, server.Addr()).Addr()})
			opts := optionsOf(t, row["options"])
			r := rented{rdb: rdb, opts: opts, store: redisstore.New(rdb, opts...), behind: redisstore.New(server.Client(t), opts...)}
			var works []string
			var modes []lock.Mode
			for i, feature := range features {
				err := feature.use(t.Context(), r, fmt.Sprintf("%s:%d", name, i))
				switch says := row[feature.column]; {
				case says == "no" && err != nil:
				case says == "in part" && err == nil:
				case says == "yes" && err == nil:
					works, modes = append(works, feature.column), append(modes, feature.modes...)
				default:
					t.Errorf("%s: got %v, and docs/managed-redis.md says %q", feature.column, err, says)
				}
			}
			if !slices.Contains(modes, lock.Exclusive) {
				return // the suite needs it
			}
			limited := &limitedStore{
				BlockingStore: lock.Blocking(r.store), behind: r.behind, modes: modes,
				inspects: slices.Contains(works, "`Inspect`"), forces: slices.Contains(works, "`ForceRelease`"),
			}
			storetest.Run(t, func(*testing.T) lock.Store { return lock.Async(limited) }, storetest.Require(modes...))
		})
	}
}

// optionsOf reads a cell of the table.
func optionsOf(t *testing.T, cell string) (opts []redisstore.Option) {
	t.Helper()
	for name := range strings.SplitSeq(cell, " ") {
		opt, known := settings[name]
		if !known && name != "–" {
			t.Fatalf("the option %q is not known", name)
		}
		if known {
			opts = append(opts, opt)
		}
	}
	return slices.Clip(opts)
}

// limitedStore has only the modes that a product doesn't refuse. What tests
// look at locks with, besides taking them, goes past the rules where it has to.
type limitedStore struct {
	lock.BlockingStore
	behind           *redisstore.Store
	modes            []lock.Mode
	inspects, forces bool
}

func (s *limitedStore) allows(c lock.Claim) error {
	if !slices.Contains(s.modes, c.Mode) {
		return lock.ErrUnsupported
	}
	return nil
}

func (s *limitedStore) Acquire(ctx context.Context, c lock.Claim) (uint64, error) {
	if err := s.allows(c); err != nil {
		return 0, err
	}
	return s.BlockingStore.Acquire(ctx, c)
}

func (s *limitedStore) Release(ctx context.Context, c lock.Claim) error {
	if err := s.allows(c); err != nil {
		return err
	}
	return s.BlockingStore.Release(ctx, c)
}

func (s *limitedStore) Lower(ctx context.Context, c lock.Claim) error {
	if err := s.allows(c); err != nil {
		return err
	}
	return s.BlockingStore.Lower(ctx, c)
}

func (s *limitedStore) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	if len(claims) == 1 && s.allows(claims[0]) != nil {
		report(0, lock.ErrUnsupported)
		return
	}
	s.BlockingStore.Renew(ctx, claims, report)
}

func (s *limitedStore) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	if err := s.allows(c); err != nil {
		return nil, err
	}
	return s.BlockingStore.Watch(ctx, c, wake)
}

func (s *limitedStore) Inspect(ctx context.Context, key string) (lock.State, error) {
	if s.inspects {
		return s.BlockingStore.Inspect(ctx, key)
	}
	return s.behind.Inspect(ctx, key)
}

func (s *limitedStore) ForceRelease(ctx context.Context, key string) (bool, error) {
	if s.forces {
		return s.BlockingStore.ForceRelease(ctx, key)
	}
	return s.behind.ForceRelease(ctx, key)
}

// productTable reads the table of docs/managed-redis.md whose first column is
// headed "product".
func productTable(t *testing.T) (columns []string, rows []map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/managed-redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			if len(rows) > 0 {
				return columns, rows
			}
			columns = nil
		case cells[0] == "product":
			columns = cells
		case columns != nil && !strings.HasPrefix(cells[0], "-") && len(cells) == len(columns):
			row := make(map[string]string)
			for i, cell := range cells {
				row[columns[i]] = cell
			}
			rows = append(rows, row)
		}
	}
	return columns, rows
}

package fxmodule

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// InMemory keeps the locks in the memory of this process, for tests and for
// programs with a single instance: other instances don't see these locks. It
// provides a [lock.Store], so a Redis client isn't used.
func InMemory() fx.Option { return first.InMemory() }

// InDatabase keeps the locks in the tables of [sqlstore.Migrations], in the database of the
// application's *sql.DB. It provides a *sqlstore.Store, for [sqlstore.Store.InTx], and as
// such the [lock.Store], so a Redis client isn't used. The pool should be one that nobody
// else fills: see [sqlstore.New]. The tables are checked at start.
func InDatabase(d sqlstore.Dialect, opts ...sqlstore.Option) fx.Option {
	return fx.Provide(
		func(db *sql.DB) (*sqlstore.Store, error) { return sqlstore.New(db, d, opts...) },
		func(s *sqlstore.Store) lock.Store { return s },
	)
}

// errNoStore says what to choose from. Memory is never the default: with two
// instances of the application there would be no lock at all.
var errNoStore = errors.New("fxmodule: no lock store is configured, use one of\n" +
	"\tfx.Provide of a *redis.Client, *redis.ClusterClient or redis.UniversalClient;\n" +
	"\tfx.Provide of a lock.Store, such as redisstore.New(client), if the client has a name or is in a group of fx, where it isn't seen;\n" +
	"\tfxmodule.InDatabase(dialect), for locks in the application's *sql.DB;\n" +
	"\tfxmodule.InMemory(), if the application never runs twice")

// given reports whether v holds a value, and not a nil pointer.
func given(v any) bool {
	value := reflect.ValueOf(v)
	return v != nil && (value.Kind() != reflect.Pointer || !value.IsNil())
}

// store chooses where locks are kept.
func (p *Params) store() (lock.Store, error) {
	if given(p.Store) && p.Config.Redis != (Redis{}) {
		return nil, fmt.Errorf("fxmodule: config: redis: the lock store is a %T, to which these settings don't apply: "+
			"leave them out, or provide the Redis client only", p.Store)
	}
	if given(p.Store) {
		return p.Store, nil
	}
	rdb, err := p.client()
	if err != nil {
		return nil, err
	}
	if rdb == nil {
		return nil, errNoStore
	}
	options, err := p.Config.Redis.options(rdb)
	if err != nil {
		return nil, err
	}
	options = append(options, redisstore.WithLogger(p.Logger))
	if p.Telemetry != nil {
		options = append(options, redisstore.WithCircuitHook(p.Telemetry.Circuit))
	}
	return redisstore.New(rdb, options...), nil
}

// client is the one Redis client of the application, nil if there is none.
// fx knows types only, so one client may be there under two of them.
func (p *Params) client() (redis.UniversalClient, error) {
	var clients []redis.UniversalClient
	var types []string
	add := func(rdb redis.UniversalClient) {
		if !slices.Contains(clients, rdb) {
			clients = append(clients, rdb)
			types = append(types, fmt.Sprintf("%T", rdb))
		}
	}
	if p.Single != nil {
		add(p.Single)
	}
	if p.Cluster != nil {
		add(p.Cluster)
	}
	if given(p.Universal) {
		add(p.Universal)
	}
	switch len(clients) {
	case 0:
		return nil, nil
	case 1:
		return clients[0], nil
	}
	return nil, fmt.Errorf("fxmodule: %d Redis clients are provided (%s), and it is not clear which one keeps the locks: "+
		"provide a lock.Store made of the right one with redisstore.New", len(clients), strings.Join(types, ", "))
}

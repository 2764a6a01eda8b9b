package fxmodule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/redisstore"
)

// store chooses where locks are kept.
func (p *Params) store() (lock.Store, error) {
	if p.Store != nil {
		return p.Store, nil
	}
	rdb, err := p.client()
	if err != nil {
		return nil, err
	}
	if rdb == nil {
		p.Logger.Info("locks are kept in the memory of this process: no Redis client is provided")
		return memstore.New(), nil
	}
	return redisstore.New(rdb, redisstore.WithLogger(p.Logger)), nil
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
	if p.Universal != nil {
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

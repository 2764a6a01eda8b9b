package fxmodule

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// Redis holds the options of the store that is made of the application's Redis
// client. A field that is zero has the default of the store.
type Redis struct {
	// KeyPrefix is put in front of every key, as of [redisstore.WithKeyPrefix].
	KeyPrefix string `yaml:"keyPrefix" json:"keyPrefix"`
	// Publish is auto, sharded, plain or both, as of [redisstore.WithPublish].
	// Default auto.
	Publish string `yaml:"publish" json:"publish"`
	// Polling does without publish/subscribe, as of [redisstore.WithPolling].
	Polling bool `yaml:"polling" json:"polling"`
	// Replicas must have a grant or a renewal within ReplicasTimeout before it
	// counts, as of [redisstore.WithReplicas]. Each needs the other. The time is
	// below CallTimeout and the client's ReadTimeout.
	Replicas        int           `yaml:"replicas" json:"replicas"`
	ReplicasTimeout time.Duration `yaml:"replicasTimeout" json:"replicasTimeout"`
	// Quarantine is how long a server that was started grants no locks, as of
	// [redisstore.WithQuarantine].
	Quarantine time.Duration `yaml:"quarantine" json:"quarantine"`
	// CircuitFailures in a row open the circuit of a server, and CircuitPause
	// is the time between two attempts to reach it again, as of
	// [redisstore.WithCircuit]. Default 5 and 250ms; -1 failures: never.
	CircuitFailures int           `yaml:"circuitFailures" json:"circuitFailures"`
	CircuitPause    time.Duration `yaml:"circuitPause" json:"circuitPause"`
	// RedissonTokens takes fences from the counters of Redisson, as of
	// [redisstore.WithRedissonTokens]. Exclusive locks only.
	RedissonTokens bool `yaml:"redissonTokens" json:"redissonTokens"`
	// SETNX keeps locks in the format of redsync, bsm/redislock and redis-py, as
	// of [redisstore.WithSETNX]. Exclusive locks only.
	SETNX bool `yaml:"setnx" json:"setnx"`
	// WithoutScriptPublish is for servers that refuse PUBLISH in scripts, as of
	// [redisstore.WithoutScriptPublish]. There are no fair locks then.
	WithoutScriptPublish bool `yaml:"withoutScriptPublish" json:"withoutScriptPublish"`
	// WithoutScriptTime is for servers that refuse TIME in scripts, as of
	// [redisstore.WithoutScriptTime]. There are no fair locks and no semaphores
	// then.
	WithoutScriptTime bool `yaml:"withoutScriptTime" json:"withoutScriptTime"`
}

var publishings = map[string]redisstore.Publishing{
	"": redisstore.Auto, "auto": redisstore.Auto, "sharded": redisstore.Sharded, "plain": redisstore.Plain, "both": redisstore.Both,
}

// settings are all fields of r.
func (r *Redis) settings() settings {
	return settings{
		{name: "keyPrefix", value: &r.KeyPrefix},
		{name: "publish", value: &r.Publish, fault: func() string {
			if _, known := publishings[r.Publish]; !known {
				return fmt.Sprintf("unknown %q; use auto, sharded, plain or both", r.Publish)
			}
			return ""
		}},
		{name: "polling", value: &r.Polling},
		{name: "replicas", value: &r.Replicas, fault: func() string {
			switch {
			case r.Replicas < 0:
				return fmt.Sprintf("%d is negative, use 0 for none", r.Replicas)
			case (r.Replicas > 0) != (r.ReplicasTimeout > 0):
				return "replicas and replicasTimeout need each other"
			}
			return ""
		}},
		duration("replicasTimeout", &r.ReplicasTimeout, time.Millisecond),
		duration("quarantine", &r.Quarantine, time.Millisecond),
		{name: "circuitFailures", value: &r.CircuitFailures, fault: func() string {
			if r.CircuitFailures < -1 {
				return fmt.Sprintf("%d is negative, use -1 for a circuit that never opens", r.CircuitFailures)
			}
			return ""
		}},
		duration("circuitPause", &r.CircuitPause, time.Millisecond),
		{name: "redissonTokens", value: &r.RedissonTokens},
		{name: "setnx", value: &r.SETNX, fault: func() string {
			if r.SETNX && r.RedissonTokens {
				return "locks of this format have no redissonTokens: leave one of the two out"
			}
			return ""
		}},
		{name: "withoutScriptPublish", value: &r.WithoutScriptPublish},
		{name: "withoutScriptTime", value: &r.WithoutScriptTime},
	}
}

// refuses says why there are no locks of a mode, if there are none.
func (r *Redis) refuses(m lock.Mode) string {
	const cure = ": use mode exclusive, or leave this setting of the config out"
	switch {
	case m == lock.Exclusive:
		return ""
	case r.SETNX:
		return "redis.setnx has exclusive locks only" + cure
	case r.RedissonTokens:
		return "redis.redissonTokens has exclusive locks only" + cure
	case r.WithoutScriptPublish && m == lock.Fair:
		return "redis.withoutScriptPublish has no fair locks" + cure
	case r.WithoutScriptTime && (m == lock.Fair || m == lock.Semaphore):
		return "redis.withoutScriptTime has no fair locks and no semaphores" + cure
	}
	return ""
}

// options are those of the store on rdb.
func (r *Redis) options(rdb redis.UniversalClient) ([]redisstore.Option, error) {
	options := []redisstore.Option{redisstore.WithPublish(publishings[r.Publish])}
	if r.KeyPrefix != "" {
		options = append(options, redisstore.WithKeyPrefix(r.KeyPrefix))
	}
	if r.Replicas > 0 {
		if limit := readTimeout(rdb); limit > 0 && r.ReplicasTimeout >= limit {
			return nil, fmt.Errorf("fxmodule: config: redis.replicasTimeout: %v is not below the client's ReadTimeout of %v", r.ReplicasTimeout, limit)
		}
		options = append(options, redisstore.WithReplicas(r.Replicas, r.ReplicasTimeout))
	}
	if r.Quarantine > 0 {
		options = append(options, redisstore.WithQuarantine(r.Quarantine))
	}
	if r.CircuitFailures != 0 || r.CircuitPause != 0 {
		failures, pause := cmp.Or(r.CircuitFailures, redisstore.DefaultCircuitFailures), cmp.Or(r.CircuitPause, redisstore.DefaultCircuitPause)
		options = append(options, redisstore.WithCircuit(max(0, failures), pause))
	}
	for _, o := range []struct {
		chosen bool
		option func() redisstore.Option
	}{
		{r.Polling, redisstore.WithPolling},
		{r.RedissonTokens, redisstore.WithRedissonTokens},
		{r.SETNX, redisstore.WithSETNX},
		{r.WithoutScriptPublish, redisstore.WithoutScriptPublish},
		{r.WithoutScriptTime, redisstore.WithoutScriptTime},
	} {
		if o.chosen {
			options = append(options, o.option())
		}
	}
	return options, nil
}

// readTimeout is that of a client, 0 where it has none or none is known.
func readTimeout(rdb redis.UniversalClient) time.Duration {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb.Options().ReadTimeout
	case *redis.ClusterClient:
		return rdb.Options().ReadTimeout
	}
	return 0
}

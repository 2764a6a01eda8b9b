package fxmodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx/fxtest"
	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
)

func TestDefaultConfigIsValidAndIsWhatZeroMeans(t *testing.T) {
	for name, c := range map[string]fxmodule.Config{"default": fxmodule.DefaultConfig(), "zero": {}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesEveryFieldThatIsWrong(t *testing.T) {
	err := fxmodule.Config{
		Watchdog: -time.Second, Poll: 1, CallTimeout: 1, CheckTimeout: -1, ReleaseTimeout: -1, FollowRules: true,
		MaxWait: -1, MaxHold: 1, MaxWaiters: -1, MaxTotalWaiters: -2,
		Margin: 1, Handoffs: 64, HandoffTime: -1,
		Redis: fxmodule.Redis{Publish: "loud", Replicas: -1, ReplicasTimeout: -1, Quarantine: 1, CircuitFailures: -2, CircuitPause: 2 * lock.MaxDuration},
	}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"watchdog: -1s", "poll: 1ns", "callTimeout: 1ns", "checkTimeout: -1ns", "releaseTimeout: -1ns", "followRules: needs a rulesFile",
		"margin: 1ns", "handoffs: 64", "handoffTime: -1ns",
		`redis.publish: unknown "loud"`, "redis.replicas: -1", "redis.replicasTimeout: -1ns", "redis.quarantine: 1ns",
		"redis.circuitFailures: -2", "redis.circuitPause: 17520h0m0s is too long",
		"maxWait: -1ns", "maxHold: 1ns", "maxWaiters: -1 is negative", "maxTotalWaiters: -2 is negative",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

var written = fxmodule.Config{
	Watchdog: 90 * time.Second, Poll: 200 * time.Millisecond, CallTimeout: time.Second, CheckTimeout: 3 * time.Second,
	ReleaseTimeout: 4 * time.Second, RulesFile: "locks.yaml", FollowRules: true,
	MaxWait: 10 * time.Second, MaxHold: time.Hour, MaxWaiters: 50, MaxTotalWaiters: 5000000,
	Service: "shop", Margin: 5 * time.Millisecond, Handoffs: -1, HandoffTime: time.Second,
	Redis: fxmodule.Redis{
		KeyPrefix: "shop:", Publish: "both", Polling: true, Replicas: 1, ReplicasTimeout: time.Second, Quarantine: time.Minute,
		CircuitFailures: -1, CircuitPause: time.Second, RedissonTokens: true, SETNX: true, WithoutScriptPublish: true, WithoutScriptTime: true,
	},
	Rules: []rule.Rule{{Operation: "POST /orders", Key: "lock:order:<userId>", Wait: 200 * time.Millisecond, Mode: lock.Semaphore, Permits: 1, Size: 3}},
}

func TestConfigIsWrittenAndReadWithDurationsAsStrings(t *testing.T) {
	for name, format := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
		want      []string
	}{
		"json": {json.Marshal, json.Unmarshal, []string{`"watchdog":"1m30s"`, `"maxTotalWaiters":5000000`}},
		"yaml": {yaml.Marshal, func(b []byte, v any) error { return yaml.Unmarshal(b, v) }, []string{"watchdog: 1m30s", "maxTotalWaiters: 5000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := format.marshal(written)
			for _, want := range format.want {
				if err != nil || !strings.Contains(string(text), want) {
					t.Fatalf("wrote %s, %v: want %s in it", text, err, want)
				}
			}
			for _, config := range []fxmodule.Config{written, fxmodule.DefaultConfig(), {}} {
				text, err := format.marshal(config)
				var read fxmodule.Config
				if err := errors.Join(err, format.unmarshal(text, &read)); err != nil || !reflect.DeepEqual(read, config) {
					t.Errorf("read %+v, %v", read, err)
				}
			}
		})
	}
}

// A field that written lacks would be read and written by nobody.
func TestWrittenHasEveryField(t *testing.T) {
	for _, of := range []reflect.Value{reflect.ValueOf(written), reflect.ValueOf(written.Redis)} {
		for i := range of.NumField() {
			if of.Field(i).IsZero() {
				t.Errorf("written has no %s", of.Type().Field(i).Name)
			}
		}
	}
}

func TestJSONLeavesMissingFieldsAsTheyAre(t *testing.T) {
	c := fxmodule.DefaultConfig()
	if err := json.Unmarshal([]byte(`{"poll":"200ms"}`), &c); err != nil {
		t.Fatal(err)
	}
	want := fxmodule.DefaultConfig()
	want.Poll = 200 * time.Millisecond
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v", c)
	}
}

func TestWhatIsNoConfigIsAnErrorThatNamesTheField(t *testing.T) {
	for text, want := range map[string]string{
		`{"wachtdog":"1s"}`:               `wachtdog: unknown field, did you mean "watchdog"?, known are callTimeout, checkTimeout, followRules, `,
		`{"poll":200}`:                    "poll: 200 is not a duration string",
		`{"poll":null}`:                   "poll: null is not a duration string",
		`{"poll":"200"}`:                  `poll: "200" is not a duration string such as "200ms"`,
		`{"rulesFile":5}`:                 "rulesFile: 5 is not a string, put it in quotes",
		`{"followRules":"yes"}`:           `followRules: "yes" is not true or false`,
		`{"maxWaiters":"5"}`:              `maxWaiters: "5" is not a whole number`,
		`{"maxWaiters":5.5}`:              "maxWaiters: 5.5 is not a whole number",
		`{"rules":{"operation":"GET /"}}`: `rules: {"operation":"GET /"} is not a list of rules`,
		`{"redis":5}`:                     "config: redis: 5 is not a mapping",
		`{"maxWaiters":null}`:             "maxWaiters: has no value, add one or remove the field",
		`{"rulesFile":null}`:              "rulesFile: has no value",
		`{"redis":{"polling":null}}`:      "redis.polling: has no value",
		`{"poll":"1s","Poll":"2s"}`:       `Poll: unknown field, did you mean "poll"?`,
		`{"redis":{"setnx":1}}`:           "redis.setnx: 1 is not true or false",
		`{"redis":{"setNX":true}}`:        `redis.setNX: unknown field, did you mean "setnx"?`,
		`{"redis":{"quarantine":"long"}}`: `redis.quarantine: "long" is not a duration`,
		`{"rules":[{"operation":"POST /orders","key":"lock:a","wiat":"1s"}]}`: `wiat`,
		`{"rules":[{"operation":"POST /orders","key":"lock:a","wait":5}]}`:    `wait`,
		`[]`: "",
	} {
		for name, unmarshal := range map[string]func([]byte, any) error{
			"json": json.Unmarshal, "yaml": func(b []byte, v any) error { return yaml.Unmarshal(b, v) },
		} {
			var c fxmodule.Config
			if err := unmarshal([]byte(text), &c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: got %v, want %q in it", name, text, err, want)
			}
		}
	}
}

// Package json would keep the last of them.
func TestAFieldThatIsThereTwiceIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		`{"poll":"1s","poll":"2s"}`:                                     "config: poll: is there twice, keep one",
		`{"poll":"1s","\u0070oll":"1s"}`:                                "config: poll: is there twice",
		`{"redis":{"replicas":1,"replicas":2}}`:                         "config: redis.replicas: is there twice",
		`{"redis":{"replicas":1},"redis":{"replicasTimeout":"1s"}}`:     "config: redis: is there twice",
		`{"rules":[{"operation":"GET /a","key":"a"}],"x":1,"rules":[]}`: "config: rules: is there twice",
	} {
		var c fxmodule.Config
		if err := json.Unmarshal([]byte(text), &c); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "twice") != 1 {
			t.Errorf("%s: got %v, want %q in it", text, err, want)
		}
	}
}

// YAML takes 2024-01-01 for a date, which is another string in JSON.
func TestADateOfYAMLIsNoString(t *testing.T) {
	for text, want := range map[string]string{
		"redis:\n  keyPrefix: 2024-01-01": "redis: keyPrefix: is a date in YAML, put it in quotes",
		"rulesFile: 2024-01-01":           "rulesFile: is a date",
		"rules:\n- operation: POST /orders\n  key: lock:a\n  name: 2024-01-01": "rules: name: is a date",
	} {
		var c fxmodule.Config
		if err := yaml.Unmarshal([]byte(text), &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
	var c fxmodule.Config
	if err := yaml.Unmarshal([]byte(`redis: {keyPrefix: "2024-01-01"}`), &c); err != nil || c.Redis.KeyPrefix != "2024-01-01" {
		t.Errorf("in quotes: %q, %v", c.Redis.KeyPrefix, err)
	}
}

func TestANumberThatOnlyYAMLHasNamesItsField(t *testing.T) {
	for text, want := range map[string]string{
		"maxWaiters: .inf":        "config: maxWaiters: is not a finite number",
		"redis: {replicas: .nan}": "config: redis: replicas: is not a finite number",
	} {
		var c fxmodule.Config
		if err := yaml.Unmarshal([]byte(text), &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

// Libraries that make maps with keys of any type are read as well.
func TestYAMLOfAnyLibraryIsRead(t *testing.T) {
	var c fxmodule.Config
	err := c.UnmarshalYAML(func(to any) error {
		*to.(*map[string]any) = map[string]any{"watchdog": "1m", "rules": []any{map[any]any{"operation": "POST /orders", "key": "lock:a"}}}
		return nil
	})
	if err != nil || c.Watchdog != time.Minute || len(c.Rules) != 1 || c.Rules[0].Key != "lock:a" {
		t.Errorf("read %+v, %v", c, err)
	}
	failed := errors.New("not a map")
	if err := c.UnmarshalYAML(func(any) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

func TestFieldsThatContradictEachOtherAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		config fxmodule.Config
		want   []string
	}{
		"callTimeout above watchdog":        {fxmodule.Config{CallTimeout: time.Minute}, []string{"callTimeout: 1m0s", "watchdog of 30s"}},
		"more for one key than for all":     {fxmodule.Config{MaxWaiters: 10, MaxTotalWaiters: 5}, []string{"maxWaiters: 10", "maxTotalWaiters, 5"}},
		"margin of half the watchdog":       {fxmodule.Config{Watchdog: 100 * time.Millisecond, CallTimeout: time.Millisecond, Margin: 50 * time.Millisecond}, []string{"margin: 50ms", "100ms"}},
		"margin of half an acquire":         {fxmodule.Config{Watchdog: time.Hour, Margin: 15 * time.Second}, []string{"margin: 15s", "30s"}},
		"margin of half the maxHold":        {fxmodule.Config{MaxHold: 20 * time.Millisecond, Margin: 10 * time.Millisecond}, []string{"margin: 10ms", "20ms"}},
		"setnx and tokens":                  {fxmodule.Config{Redis: fxmodule.Redis{SETNX: true, RedissonTokens: true}}, []string{"redis.setnx", "redissonTokens"}},
		"replicas without a time":           {fxmodule.Config{Redis: fxmodule.Redis{Replicas: 1}}, []string{"redis.replicas", "replicasTimeout"}},
		"a time for no replicas":            {fxmodule.Config{Redis: fxmodule.Redis{ReplicasTimeout: 1e6}}, []string{"redis.replicas", "replicasTimeout"}},
		"replicas slower than a call":       {fxmodule.Config{CallTimeout: 500 * time.Millisecond, Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: 500 * time.Millisecond}}, []string{"redis.replicasTimeout: 500ms", "callTimeout of 500ms"}},
		"replicas slower than the default":  {fxmodule.Config{Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: 3 * time.Second}}, []string{"redis.replicasTimeout: 3s", "callTimeout of 2s"}},
		"a time for no replicas, and long":  {fxmodule.Config{Redis: fxmodule.Redis{ReplicasTimeout: 3 * time.Second}}, []string{"redis.replicas", "replicasTimeout need each other"}},
		"a wrong callTimeout, and replicas": {fxmodule.Config{CallTimeout: -1, Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: time.Second}}, []string{"callTimeout: -1ns"}},
		"less than no handoffs":             {fxmodule.Config{Handoffs: -2}, []string{"handoffs: -2"}},
		"a rules file to follow that isn't": {fxmodule.Config{FollowRules: true}, []string{"followRules", "rulesFile"}},
	} {
		err := test.config.Validate()
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one fault", name, err)
		}
	}
	if err := (fxmodule.Config{Watchdog: time.Second, CallTimeout: 300 * time.Millisecond, MaxWaiters: 5}).Validate(); err != nil {
		t.Error(err)
	}
}

// The mode of a rule is refused exactly where the store that is made refuses it.
func TestSettingsRefuseTheModesThatTheStoreDoesNotHave(t *testing.T) {
	for name, redis := range map[string]fxmodule.Redis{
		"": {}, "redis.setnx": {SETNX: true}, "redis.redissonTokens": {RedissonTokens: true},
		"redis.withoutScriptPublish": {WithoutScriptPublish: true}, "redis.withoutScriptTime": {WithoutScriptTime: true},
	} {
		for m := lock.Exclusive; m.Valid(); m++ {
			t.Run(name+" "+m.String(), func(t *testing.T) {
				made, err := fxmodule.New(fxmodule.Params{
					Lifecycle: fxtest.NewLifecycle(t), Single: single(t),
					Config: fxmodule.Config{Redis: redis, CallTimeout: 50 * time.Millisecond},
				})
				if err != nil {
					t.Fatal(err)
				}
				r := rule.Rule{Operation: "POST /orders", Key: "lock:a", Mode: m}
				option := lock.WithMode(m)
				if m == lock.Semaphore {
					r.Permits, r.Size, option = 1, 3, lock.WithPermits(1, 3)
				}
				_, failed := made.Locker.TryAcquire(t.Context(), "lock:a", option)
				if failed == nil {
					t.Fatal("a lock of nobody was granted")
				}
				_, err = fxmodule.NewGuard(fxmodule.GuardParams{Locker: made.Locker, Rules: []rule.Rule{r}, Config: fxmodule.Config{Redis: redis}})
				switch unsupported := errors.Is(failed, lock.ErrUnsupported); {
				case unsupported != (err != nil):
					t.Errorf("the rule: %v; the lock: %v", err, failed)
				case unsupported:
					for _, want := range []string{`"POST /orders": mode: ` + m.String() + ": " + name, "use mode exclusive"} {
						if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), want) {
							t.Errorf("%v: want %q in it", err, want)
						}
					}
				}
				if err := made.Locker.Close(t.Context()); err != nil && !errors.Is(err, lock.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
	}
}

func TestSettingsOfRedisNeedRedis(t *testing.T) {
	config := fxmodule.Config{Redis: fxmodule.Redis{SETNX: true}}
	_, err := fxmodule.New(fxmodule.Params{Lifecycle: fxtest.NewLifecycle(t), Store: memstore.New(), Config: config})
	if err == nil || !strings.Contains(err.Error(), "config: redis: the lock store is a *memstore.Store") {
		t.Errorf("got %v", err)
	}
	config = fxmodule.Config{CallTimeout: 7 * time.Second, Redis: fxmodule.Redis{Replicas: 1, ReplicasTimeout: 6 * time.Second}}
	patient := redis.NewClient(&redis.Options{ReadTimeout: -1})
	closeLater(t, patient)
	if _, err := fxmodule.New(fxmodule.Params{Lifecycle: fxtest.NewLifecycle(t), Single: patient, Config: config}); err != nil {
		t.Errorf("a client that waits for as long as it takes: %v", err)
	}
	for name, params := range map[string]fxmodule.Params{"one server": {Single: single(t)}, "a cluster": {Cluster: cluster(t)}} {
		params.Lifecycle, params.Config = fxtest.NewLifecycle(t), config
		if _, err := fxmodule.New(params); err == nil || !strings.Contains(err.Error(), "redis.replicasTimeout: 6s is not below the client's ReadTimeout of 5s") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// releases counts the releases of a store in memory.
type releases struct {
	*memstore.Store
	n atomic.Int32
}

func (r *releases) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	r.n.Add(1)
	r.Store.Release(ctx, c, by, answer)
}

func TestHandoffsAndMarginOfTheConfigAreThoseOfTheLocker(t *testing.T) {
	for handoffs, want := range map[int]int32{0: 1, -1: 2} {
		synctest.Test(t, func(t *testing.T) {
			lifecycle, store := fxtest.NewLifecycle(t), &releases{Store: memstore.New()}
			made, err := fxmodule.New(fxmodule.Params{Lifecycle: lifecycle, Store: store, Config: fxmodule.Config{
				Handoffs: handoffs, Margin: time.Second,
			}})
			if err != nil {
				t.Fatal(err)
			}
			lifecycle.RequireStart()
			defer lifecycle.RequireStop()
			lease, err := made.Locker.Acquire(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			// A hundredth of the watchdog is for clocks.
			if left := time.Until(lease.Deadline()); left != 30*time.Second-300*time.Millisecond-time.Second {
				t.Errorf("the lease is trusted for %v", left)
			}
			next := make(chan error)
			go func() {
				lease, err := made.Locker.Acquire(t.Context(), "a")
				if err == nil {
					err = lease.Release(t.Context())
				}
				next <- err
			}()
			synctest.Wait()
			if err := errors.Join(lease.Release(t.Context()), <-next); err != nil {
				t.Error(err)
			}
			if n := store.n.Load(); n != want {
				t.Errorf("handoffs %d: the store heard of %d releases, want %d", handoffs, n, want)
			}
		})
	}
}

func TestLimitsOfTheConfigAreThoseOfTheLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lifecycle := fxtest.NewLifecycle(t)
		made, err := fxmodule.New(fxmodule.Params{Lifecycle: lifecycle, Store: memstore.New(), Config: fxmodule.Config{
			MaxWait: time.Minute, MaxHold: time.Hour, MaxWaiters: 2, MaxTotalWaiters: 3,
		}})
		if err != nil {
			t.Fatal(err)
		}
		l := made.Locker
		lifecycle.RequireStart()
		defer lifecycle.RequireStop()
		began := time.Now()
		var waiters sync.WaitGroup
		wait := func(key string, want ...error) {
			waiters.Go(func() {
				_, err := l.Acquire(t.Context(), key)
				for _, w := range want {
					if !errors.Is(err, w) {
						t.Errorf("%s: got %v, want %v", key, err, w)
					}
				}
			})
			synctest.Wait()
		}
		lease, err := l.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		wait("a", lock.ErrBusy, context.DeadlineExceeded)
		wait("a", lock.ErrBusy, context.DeadlineExceeded)
		wait("a", lock.ErrTooManyWaiters)
		wait("b", lock.ErrBusy, context.DeadlineExceeded)
		wait("b", lock.ErrTooManyWaiters)
		waiters.Wait()
		if waited := time.Since(began); waited != time.Minute {
			t.Errorf("waited %v, want a minute", waited)
		}
		<-lease.Context().Done()
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrHeldTooLong) {
			t.Errorf("the lease ended: %v", cause)
		}
	})
}

package integration_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// endings are what the client says of one cause, by who notices first.
var endings = strings.NewReplacer("connection reset by peer", "EOF", "broken pipe", "EOF", "i/o timeout", "context deadline exceeded")

// checked is the error of Check as the manual has it: with the manual's address, and
// the first word of what the server says, for the others differ by version.
func checked(t *testing.T, addr string, store *redisstore.Store) string {
	t.Helper()
	err := store.Check(t.Context(), allModes...)
	if err == nil {
		t.Fatalf("nothing is wrong at %s", addr)
	}
	message := strings.ReplaceAll(err.Error(), addr, "127.0.0.1:6379")
	var words redis.Error
	if errors.As(err, &words) {
		first, _, _ := strings.Cut(words.Error(), " ")
		message = strings.ReplaceAll(message, words.Error(), first+" …")
	}
	return endings.Replace(message)
}

func TestTheManualQuotesTheErrorsOfCheck(t *testing.T) {
	server := redistest.Standalone(t, "--appendonly", "yes")
	admin := server.Admin(t)
	var messages []string
	check := func(addr string, rdb redis.UniversalClient, opts ...redisstore.Option) {
		t.Helper()
		messages = append(messages, checked(t, addr, redisstore.New(rdb, opts...)))
	}
	client := func(addr string, options *redis.Options) *redis.Client {
		t.Helper()
		options.Addr, options.MaxRetries, options.DialerRetries, options.DialTimeout = addr, -1, 1, time.Second
		return newClient(t, options)
	}
	// user is a client that lacks what the rules take away.
	user := func(name string, rules ...any) *redis.Client {
		t.Helper()
		rules = append([]any{"ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all"}, rules...)
		if err := admin.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		return client(server.Addr(), &redis.Options{Username: name, Password: "secret"})
	}

	nowhere := process.LoopbackAddr(process.Port(t))
	check(nowhere, client(nowhere, new(redis.Options)))
	_, replica := follow(t, server)
	check(replica.Addr(), replica.Admin(t))
	sentinel := redistest.Sentinel(t).Sentinels[0]
	check(sentinel.Addr(), sentinel.Admin(t))
	check(server.Addr(), newCluster(t, server))
	check(server.Addr(), user("noscripts", "-evalsha"))
	check(server.Addr(), user("nokeys", "resetkeys", "~orders:*"))
	check(server.Addr(), user("noinfo", "-info"), redisstore.WithQuarantine(time.Minute))
	check(server.Addr(), client(server.Addr(), &redis.Options{Username: "nokeys", Password: "wrong"}))

	ca := newAuthority(t)
	_, addr := secured(t, ca, "127.0.0.1", time.Now().Add(time.Hour))
	check(addr, client(addr, new(redis.Options)))
	check(addr, client(addr, &redis.Options{TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}))
	check(server.Addr(), client(server.Addr(), &redis.Options{TLSConfig: ca.trust()}))
	_, addr = secured(t, ca, "192.0.2.7", time.Now().Add(time.Hour))
	check(addr, client(addr, &redis.Options{TLSConfig: ca.trust()}))

	full := user("full")
	admin.ConfigSet(t.Context(), "maxmemory", "1")
	check(server.Addr(), full)
	admin.ConfigSet(t.Context(), "maxmemory", "0")
	admin.ConfigSet(t.Context(), "requirepass", "secret")
	check(server.Addr(), client(server.Addr(), new(redis.Options)))
	admin.ConfigSet(t.Context(), "requirepass", "")
	guardtest.Quoted(t, "../../docs/errors.md", "Redis (Check)", messages)
}

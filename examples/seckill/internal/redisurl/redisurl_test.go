package redisurl_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/examples/seckill/internal/redisurl"
)

func open(t *testing.T, text, place string) redis.UniversalClient {
	t.Helper()
	target, err := redisurl.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if target.String() != place {
		t.Errorf("%s: points to %q, want %q", text, target, place)
	}
	rdb := target.Open()
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rdb
}

func TestStandalone(t *testing.T) {
	for _, tt := range []struct {
		text, place, addr, user, password string
		db                                int
		tls                               bool
	}{
		{"redis://h", "Redis at h:6379", "h:6379", "", "", 0, false},
		{"redis://h:7000/3", "Redis at h:7000", "h:7000", "", "", 3, false},
		{"redis://:p%40w@[::1]:7000", "Redis at [::1]:7000", "[::1]:7000", "", "p@w", 0, false},
		{"rediss://me:s3cret@h/1", "Redis at h:6379", "h:6379", "me", "s3cret", 1, true},
		{"redis://h?cluster=false", "Redis at h:6379", "h:6379", "", "", 0, false},
	} {
		o := open(t, tt.text, tt.place).(*redis.Client).Options()
		if o.Addr != tt.addr || o.Username != tt.user || o.Password != tt.password || o.DB != tt.db || (o.TLSConfig != nil) != tt.tls {
			t.Errorf("%s: %s %s %s %d %v", tt.text, o.Addr, o.Username, o.Password, o.DB, o.TLSConfig != nil)
		}
	}
	if o := open(t, "redis://h?dial_timeout=7s", "Redis at h:6379").(*redis.Client).Options(); o.DialTimeout != 7*time.Second {
		t.Errorf("dial timeout %v, want what the URL says", o.DialTimeout)
	}
}

func TestCluster(t *testing.T) {
	for text, want := range map[string][]string{
		"redis+cluster://me:s3cret@a:7000,b,[::1]:7002": {"a:7000", "b:6379", "[::1]:7002"},
		"redis+cluster://me:s3cret@a/0":                 {"a:6379"},
		"redis://me:s3cret@a?cluster":                   {"a:6379"},
		"redis://me:s3cret@a,b?cluster=true":            {"a:6379", "b:6379"},
		"rediss+cluster://me:s3cret@a,b":                {"a:6379", "b:6379"},
	} {
		o := open(t, text, "Redis cluster at "+strings.Join(want, ", ")).(*redis.ClusterClient).Options()
		if !slices.Equal(o.Addrs, want) || o.Username != "me" || o.Password != "s3cret" {
			t.Errorf("%s: %v %s %s", text, o.Addrs, o.Username, o.Password)
		}
		if tls := strings.HasPrefix(text, "rediss"); (o.TLSConfig != nil) != tls {
			t.Errorf("%s: TLS %v", text, !tls)
		}
	}
}

func TestSentinel(t *testing.T) {
	rdb := open(t, "redis+sentinel://me:s3cret@a:26380,b/my%20master/2?sentinel_username=watch&sentinel_password=s3ntinel",
		`Redis master "my master" of the sentinels at a:26380, b:26379`)
	o := rdb.(*redis.Client).Options()
	if o.Username != "me" || o.Password != "s3cret" || o.DB != 2 || o.Addr != "FailoverClient" {
		t.Errorf("%s %s %d %s", o.Username, o.Password, o.DB, o.Addr)
	}
}

func TestAWrongURLIsRefusedWithoutItsPassword(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "use redis://",
		"localhost:6379":                    "use redis://",
		"redis:me:s3cret@h":                 "use redis://",
		":s3cret@redis://h":                 "use redis://",
		"http://me:s3cret@h":                `unknown scheme "http"`,
		"redis+quorum://me:s3cret@h":        `unknown scheme "redis+quorum"`,
		"redis://me:s3cret@":                "malformed URL",
		"redis://me:s3cret@h:port":          "malformed URL",
		"redis://me:s3cret@a,b":             "more than one host",
		"redis://me:s3cret@a,,b?cluster":    "malformed URL",
		"redis://me:12/s3cret@h":            "malformed URL",
		"redis://me:12?s3cret@h":            "malformed URL",
		"redis://me:12#s3cret@h":            "malformed URL",
		"redis://me:s3/cret@h":              "malformed URL",
		"redis+sentinel://me:12/s3cret@h/m": "malformed URL",
		"redis://me:s3%cret@h":              "malformed",
		"redis://me:s3cret@h?dial_timeout=1s;read_timeout=1s":   "malformed URL",
		"redis+sentinel://me:s3cret@h/m?sentinel_password=100%": "malformed URL",
		"redis+sentinel://me:s3cret@h/m/0?cluster=true":         "cluster: must be",
		"redis+cluster://me:s3cret@h?cluster=false":             "cluster: must be",
		"redis://me:s3cret@h?cluster=0":                         "cluster: must be",
		"redis://me:s3cret@h/sale":                              "database number",
		"redis://me:s3cret@h?pool=7":                            "unexpected option: pool",
		"redis://me:s3cret@h?dial_timeout=soon":                 "dial_timeout",
		"redis://me:s3cret@h/-1":                                "database number",
		"redis://me:s3cret@h?db=-1":                             "database number",
		"redis://me:s3cret@h?pool_size=-1":                      "pool_size",
		"redis://me:s3cret@h?pool_size=9999999999999999":        "pool_size",
		"redis+cluster://me:s3cret@h?pool_size=-1":              "pool_size",
		"redis+sentinel://me:s3cret@h/m?pool_size=-1":           "pool_size",
		"redis+sentinel://me:s3cret@h/m/-1":                     "database number",
		"redis+cluster://me:s3cret@a,b/3":                       "no database but 0",
		"redis+cluster://me:s3cret@a,b/0/0":                     "no database but 0",
		"redis+cluster://me:s3cret@a,b?dial_timeout=soon":       "dial_timeout",
		"redis+sentinel://me:s3cret@a,b/%zz":                    "malformed master name",
		"redis+sentinel://me:s3cret@a,b":                        "master's name is missing",
		"redis+sentinel://me:s3cret@a,b/m/0/1":                  "master's name is missing",
		"redis+sentinel://me:s3cret@a,b/m/x":                    "database number",
	} {
		_, err := redisurl.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: error %v, want one with %q and without the password", text, err, want)
		}
	}
}

// Nobody waits for a server longer than they want to, whatever its settings are.
func TestACommandEndsWithItsContext(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, form := range []string{"redis://%s?%s", "redis+sentinel://%s/m?%s", "redis+cluster://%s?%s"} {
		target, err := redisurl.Parse(fmt.Sprintf(form, mute.Addr(), "read_timeout=1h&dial_timeout=200ms"))
		if err != nil {
			t.Fatal(err)
		}
		rdb := target.Open()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		pong := make(chan error, 1)
		go func() { pong <- rdb.Ping(ctx).Err() }()
		select {
		case err := <-pong:
			if err == nil {
				t.Errorf("%s: it answers", target)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: a command goes on without its context", target)
		}
		cancel()
		_ = rdb.Close()
	}
}

func FuzzParseNeverShowsThePassword(f *testing.F) {
	f.Add("redis", "h:6379/0")
	f.Add("redis+sentinel", "a,b/m/0?sentinel_username=x")
	f.Add("redis+cluster", "a,b,%zz?x=%")
	const password = "p4ssw0rd-of-redis"
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		target, err := redisurl.Parse(scheme + "://user:" + password + "@" + rest)
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("error %v", err)
		}
		if err == nil && strings.Contains(target.String(), password) {
			t.Errorf("place %v", target)
		}
	})
}

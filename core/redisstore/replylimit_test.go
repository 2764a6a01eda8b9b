package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// scripted is a connection to somebody who says the same whatever it hears, and
// hangs up.
type scripted struct {
	net.Conn

	says io.Reader
}

func (s *scripted) Read(p []byte) (int, error)     { return s.says.Read(p) }
func (*scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (*scripted) Close() error                     { return nil }
func (*scripted) SetDeadline(time.Time) error      { return nil }
func (*scripted) SetReadDeadline(time.Time) error  { return nil }
func (*scripted) SetWriteDeadline(time.Time) error { return nil }
func (*scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*scripted) LocalAddr() net.Addr              { return &net.TCPAddr{} }

const replyLimit = 4096

// impostor is a client whose server says that, in reads of any size.
func impostor(tb testing.TB, says []byte, oneByte bool) *redis.Client {
	tb.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		from := io.MultiReader(strings.NewReader("-ERR unknown command 'hello'\r\n"), bytes.NewReader(says))
		if oneByte {
			from = iotest.OneByteReader(from)
		}
		return &scripted{says: from}, nil
	}
	rdb := redis.NewClient(&redis.Options{
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, // nothing but what is under test is read
		Dialer: redisstore.LimitReplies(dial, replyLimit),
	})
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

var hostile = map[string]string{
	"an array longer than memory": "*9223372036854775807\r\n",
	"a string longer than memory": "$1000000000\r\n",
	"an array of many":            "*1000\r\n",
	"a map of many":               "%100\r\n",
	"an attribute of many":        "|100\r\n",
	"a push of many":              ">1000\r\n",
	"a long error":                "!1000000000\r\n",
	"a verbatim string":           "=1000000000\r\n",
	"a line without end":          "+" + strings.Repeat("a", replyLimit+1),
	"arrays that add up":          strings.Repeat("*100\r\n", 100),
	"arrays inside each other":    strings.Repeat("*1\r\n", 40),
	"strings that add up":         "*3\r\n" + strings.Repeat("$2000\r\n"+strings.Repeat("a", 2000)+"\r\n", 3),
	"a length that overflows":     "$9223372036854775808\r\n",
	"a negative length":           "$-2\r\n",
	"another protocol":            "HTTP/1.1 400 Bad Request\r\n",
	"a kind that is none":         "?5\r\n",
	"an empty line":               "\r\n",
	"half an end of a line":       "+OK\n",
	"a length that is no number":  "$a\r\n",
	"a map that adds up":          "%2\r\n" + strings.Repeat("$1100\r\n"+strings.Repeat("a", 1100)+"\r\n", 4),
	"an attribute and its reply":  "|1\r\n" + strings.Repeat("$1500\r\n"+strings.Repeat("a", 1500)+"\r\n", 3),
}

func TestWhateverAnswersInPlaceOfRedisIsAFailedCall(t *testing.T) {
	for name, says := range hostile {
		for _, oneByte := range []bool{false, true} {
			rdb := impostor(t, []byte(says), oneByte)
			store := redisstore.New(rdb, redisstore.WithPublish(redisstore.Plain))
			_, err := lock.Blocking(store).Acquire(t.Context(), lock.Claim{Key: "k", Owner: "o:1", TTL: time.Minute})
			if !errors.Is(err, redisstore.ErrReply) || lock.ClassOf(err) != "bad reply" {
				t.Errorf("%s: got %v (%s), want ErrReply", name, err, lock.ClassOf(err))
			}
		}
	}
}

func TestRepliesBelowTheLimitPass(t *testing.T) {
	long := strings.Repeat("a", replyLimit/2)
	for _, says := range []string{
		"+OK\r\n", "-ERR no\r\n", ":42\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "*0\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n",
		"$" + "2048" + "\r\n" + long + "\r\n",
		"*3\r\n$2\r\n\r\n\r\n*2\r\n:1\r\n$-1\r\n*0\r\n", // a string that looks like an end
		"%1\r\n+a\r\n*1\r\n:1\r\n",
		"|1\r\n+ttl\r\n:5\r\n*1\r\n|1\r\n+a\r\n%0\r\n:1\r\n",
		"=7\r\ntxt:abc\r\n", "!5\r\nERR a\r\n",
	} {
		for _, oneByte := range []bool{false, true} {
			// Many of them are more than the limit, which is for one.
			rdb := impostor(t, []byte(strings.Repeat(says, 50)), oneByte)
			var failed []error
			for range 50 {
				err := rdb.Do(t.Context(), "x").Err()
				var reply redis.Error
				if err != nil && !errors.As(err, &reply) {
					failed = append(failed, err)
				}
			}
			if len(failed) > 0 {
				t.Errorf("%.60q: %d failed: %v", says, len(failed), failed[0])
			}
		}
	}
}

func TestALimitedConnectionIsStillLookedAt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := redisstore.LimitReplies(new(net.Dialer).DialContext, replyLimit)(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	raw, ok := conn.(syscall.Conn)
	if !ok {
		t.Fatal("go-redis can't find out that the connection is dead")
	}
	if _, err := raw.SyscallConn(); err != nil {
		t.Error(err)
	}
}

// FuzzBytes: whatever bytes come, a call ends with a value or an error, and with
// little memory.
func FuzzBytes(f *testing.F) {
	for _, says := range hostile {
		f.Add([]byte(says), false)
	}
	f.Add([]byte("*2\r\n%1\r\n_\r\n$3\r\nabc\r\n*9223372036854775807\r\n"), true)
	f.Add([]byte("|1\r\n+a\r\n$-1\r\n*2\r\n:1\r\n-ERR\r\n:1\r\n$4\r\n*99\r\n\r\n*1\r\n"), false)
	f.Fuzz(func(t *testing.T, says []byte, oneByte bool) {
		rdb := impostor(t, says, oneByte)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 3 { // the next call may read what the one before left
			if _, err := rdb.Do(t.Context(), "x").Result(); err == nil && len(says) == 0 {
				t.Error("an answer from nobody")
			}
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%d bytes of memory for %d", used, len(says))
		}
	})
}

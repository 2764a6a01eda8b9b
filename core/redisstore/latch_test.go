package redisstore_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// A caller that waits for a latch is woken by a message, and looks again without one.
func TestHowSoonALatchIsSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		subscribed string // the reply to SUBSCRIBE, of that channel
		counts     []string
		want       string // the class of the failure
		after      time.Duration
	}{
		"open":                 {"", []string{integer(0)}, "", 0},
		"woken":                {"acknowledged, and a message", []string{integer(1), integer(0)}, "", 0},
		"without a message":    {"acknowledged", []string{integer(2), integer(1), integer(0)}, "", 10 * time.Second},
		"without channels":     {"refused", []string{integer(2), integer(1), integer(0)}, "", 2 * time.Second},
		"after an outage":      {"acknowledged", []string{"hang up", "hang up", integer(0)}, "", 2 * time.Second},
		"without a permission": {"acknowledged", []string{failed("NOPERM no")}, "NOPERM", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, client := newFake(t, func(c []string) string {
					switch {
					case c[0] == "ping":
						return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
					case c[0] == "evalsha":
						reply := tt.counts[0]
						tt.counts = tt.counts[1:]
						return reply
					case c[0] == "subscribe" && tt.subscribed == "refused":
						return failed("NOPERM no")
					}
					reply := push(c[0], c[1], 1)
					if strings.HasSuffix(tt.subscribed, "message") {
						reply += strings.Replace(push("message", c[1], 0), ":0\r\n", "$1\r\n0\r\n", 1)
					}
					return reply
				})
				began := time.Now()
				err := redisstore.NewLatch(redisstore.New(client, redisstore.WithLogger(slog.New(slog.DiscardHandler))), "k").Await(t.Context())
				if took := time.Since(began); lock.ClassOf(err) != tt.want || (err == nil) != (tt.want == "") || took != tt.after {
					t.Errorf("%v after %v, want %q after %v", err, took, tt.want, tt.after)
				}
				if err != nil && !errors.Is(err, lock.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				_ = client.Close()
				time.Sleep(time.Minute) // workers without work end
			})
		})
	}
}

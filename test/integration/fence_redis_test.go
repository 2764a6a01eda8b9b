package integration_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// The script that the document offers for a resource in Redis.
func TestTheGuardOfAResourceInRedisRefusesWhoIsLate(t *testing.T) {
	text, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n```lua\n")
	body, _, found := strings.Cut(rest, "\n```")
	if !found {
		t.Fatal("the document has no script")
	}
	script, rdb := redis.NewScript(body), redistest.Standalone(t).Admin(t)
	const large = uint64(1763735688000000)
	a, b, twin := fence.New(large, "a:1"), fence.New(large+1, "b:1"), fence.New(large+1, "c:1")
	for _, step := range []struct {
		name  string
		token fence.Token
		field string
		want  int
	}{
		{"A writes without a claim", a, "n", 0},
		{"A claims", a, "", 1},
		{"A claims again", a, "", 1},
		{"B claims", b, "", 1},
		{"A writes late", a, "n", 0},
		{"A claims late", a, "", 0},
		{"one with the fence of B claims", twin, "", 0},
		{"one with the fence of B writes", twin, "n", 0},
		{"B writes", b, "n", 1},
	} {
		got, err := script.Eval(t.Context(), rdb, []string{"resource"}, step.token.Fence, step.token.Owner, step.field, step.name).Int()
		if err != nil || got != step.want {
			t.Errorf("%s: %d, %v, want %d", step.name, got, err, step.want)
		}
	}
	if got := rdb.HGet(t.Context(), "resource", "n").Val(); got != "B writes" {
		t.Errorf("the resource says %q", got)
	}
}

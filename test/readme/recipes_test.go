package readme_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/fxmodule"
	"github.com/redlatch/redlatch/httplock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

type userKey struct{}

func withUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, "42")))
	})
}

func Example_typedContextKey() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	g := guard.Must(guard.New(locker))
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lock.FromContext(r.Context())
		_, _ = io.WriteString(w, "under "+lease.Key())
	})

	mux := http.NewServeMux()
	locked := httplock.New(g, "lock:order:<userId>", httpguard.WithVar("userId", httpguard.Ctx(userKey{})))
	mux.Handle("POST /orders", withUser(locked(orders)))
	post(mux, "/orders?userId=7")
	// Output:
	// 200 under lock:order:42
}

func Example_forceRelease() {
	ctx := context.Background()
	locker := lock.New(memstore.New())
	defer locker.Close(ctx)
	lease, _ := locker.Acquire(ctx, "lock:order:42")

	freed, err := locker.ForceRelease(ctx, "lock:order:42")

	fmt.Println(freed, err, errors.Is(context.Cause(lease.Context()), lock.ErrLost))
	// Output:
	// true <nil> true
}

const archive = fxmodule.Named("archive")

func TestTwoLockersOfTheManualLiveInOneApplication(t *testing.T) {
	first, second := redistest.Standalone(t), redistest.Standalone(t)
	newRedis := func() *redis.Client { return first.Client(t) }
	newArchiveRedis := func() *redis.Client { return second.Client(t) }
	var lockers []*lock.Locker
	run := func(locker, other *lock.Locker, g *guard.Guard) {
		lockers = []*lock.Locker{locker, other}
		g.Declare("archive")
	}

	app := fx.New(
		fxmodule.Module,
		archive.Module(),
		fx.Provide(
			newRedis, // for the module
			fx.Annotate(newArchiveRedis, fx.ResultTags(`name:"archive"`)),
		),
		archive.AsRule(rule.Rule{Operation: "archive", Key: "lock:archive:<id>"}),
		fx.Invoke(fx.Annotate(run, fx.ParamTags("", `name:"archive"`, `name:"archive"`))), // run(locker, other *lock.Locker, g *guard.Guard)
	)
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases := make([]*lock.Lease, len(lockers))
	for i, locker := range lockers {
		lease, err := locker.TryAcquire(t.Context(), "report")
		if err != nil {
			t.Fatalf("locker %d: %v", i, err)
		}
		leases[i] = lease
	}
	for i, server := range []*redistest.Server{first, second} {
		if n := server.Client(t).Exists(t.Context(), "report").Val(); n != 1 {
			t.Errorf("server %d has %d keys, want 1: each locker has its own Redis", i, n)
		}
	}
	for _, lease := range leases { // the stop waits for their holders
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, server := range []*redistest.Server{first, second} {
		if n := server.Client(t).Exists(t.Context(), "report").Val(); n != 0 {
			t.Errorf("server %d still has the lock after the stop", i)
		}
	}
}

// vector is a row of the table of names: a value, and what a key has for it.
var vector = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|$")

// test/interop runs the Java code of that page on the same rows.
func TestNamesOfTheManualAreThoseOfTemplates(t *testing.T) {
	_, names, _ := strings.Cut(read(t, "docs/from-redisson.md"), "\n## Names\n")
	names, _, _ = strings.Cut(names, "\n## ")
	vectors := vector.FindAllStringSubmatch(names, -1)
	if len(vectors) < 10 {
		t.Fatalf("%d rows: the reader does not work", len(vectors))
	}
	template := key.MustParse("lock:order:<v>")
	for _, v := range vectors {
		got, err := template.Render(key.Vars{"v": v[1]})
		if want := "lock:order:" + v[2]; err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", v[1], got, err, want)
		}
	}
}

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile/rulewatch"
	"github.com/redlatch/redlatch/ginlock"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// shop is a Gin server whose rules come from a file.
type shop struct {
	*httptest.Server
	guard *guard.Guard
	file  string
	wrong chan error // what the watcher reported
	// An order that says so in its query sends its lease and waits.
	leases chan *lock.Lease
	finish chan struct{}
}

func openShop(t *testing.T, rules string) *shop {
	t.Helper()
	s := &shop{
		file: filepath.Join(t.TempDir(), "locks.yaml"), wrong: make(chan error, 10),
		leases: make(chan *lock.Lease), finish: make(chan struct{}),
	}
	s.write(t, rules)
	s.guard = guard.Must(guard.New(newLocker(t, redistest.Standalone(t).Client(t))))
	w := rulewatch.Start(s.file, func(set *rule.Set) error { return s.guard.Replace(set.Rules(), set.Unlocked()...) },
		rulewatch.WithLogger(slog.New(slog.DiscardHandler)), rulewatch.WithOnError(func(err error) { s.wrong <- err }))
	t.Cleanup(w.Close)
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.Use(ginlock.Rules(s.guard, engine))
	engine.POST("/orders/:user", func(c *gin.Context) {
		lease, ok := ginlock.From(c)
		if !ok {
			c.String(http.StatusOK, "no lock")
			return
		}
		if c.Query("slow") != "" {
			s.leases <- lease
			<-s.finish
		}
		if err := lock.AssertHeld(c.Request.Context(), lease.Key()); err != nil {
			c.String(http.StatusInternalServerError, err.Error())
			return
		}
		c.String(http.StatusOK, lease.Key())
	})
	s.Server = httptest.NewServer(engine)
	t.Cleanup(s.Close)
	return s
}

// write replaces the file.
func (s *shop) write(t *testing.T, rules string) {
	t.Helper()
	if err := os.WriteFile(s.file+".new", []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.file+".new", s.file); err != nil {
		t.Fatal(err)
	}
}

// order returns what the server answers.
func (s *shop) order(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, nil)
	if err != nil {
		return err.Error()
	}
	answer, err := s.Client().Do(request)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, text)
}

func (s *shop) eventually(t *testing.T, want string) {
	t.Helper()
	eventually(t, func() error {
		if got := s.order("/orders/42"); got != want {
			return fmt.Errorf("the server answers %q, want %q", got, want)
		}
		return nil
	})
}

const orderRule = "rules:\n- operation: POST /orders/:user\n  key: lock:order:<user>\n"

func TestRulesChangeUnderAServerWithoutDroppingLocks(t *testing.T) {
	s := openShop(t, orderRule)
	s.eventually(t, "200 lock:order:42")
	first := make(chan string, 1)
	go func() { first <- s.order("/orders/42?slow=1") }()
	lease := <-s.leases

	s.write(t, strings.ReplaceAll(orderRule, "lock:order", "lock:purchase")) // a rename: both may run
	s.eventually(t, "200 lock:purchase:42")
	if lease.Key() != "lock:order:42" || lease.Context().Err() != nil {
		t.Errorf("the lease on %s that was held ended: %v", lease.Key(), context.Cause(lease.Context()))
	}
	if _, err := s.guard.Locker().TryAcquire(t.Context(), "lock:order:42"); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("the old key: %v, want ErrBusy", err)
	}
	close(s.finish)
	if got := <-first; got != "200 lock:order:42" {
		t.Errorf("the order that was under way got %q", got)
	}
	state, err := s.guard.Locker().Inspect(t.Context(), "lock:order:42")
	if err != nil || state.Held {
		t.Errorf("the old key is held after its order: %v, %v", state.Held, err)
	}

	s.write(t, "rules: []\nunlocked: ['POST /orders/:user']\n")
	s.eventually(t, "200 no lock")
}

func TestAServerKeepsItsRulesWhenTheFileIsBad(t *testing.T) {
	s := openShop(t, orderRule)
	s.eventually(t, "200 lock:order:42")
	s.write(t, "rules:\n- operation: POST /orders/:user\n  key: lock:order:<user\n  wiat: 5s\n")
	select {
	case err := <-s.wrong:
		var faults rule.Faults
		if !errors.As(err, &faults) || len(faults) != 2 || faults[0].Line != 3 || faults[1].Line != 4 || faults[0].Source != s.file {
			t.Errorf("got %v, want two faults with their lines", err)
		}
	case <-time.After(patience):
		t.Fatal("nobody says that the file is bad")
	}
	if got := s.order("/orders/42"); got != "200 lock:order:42" {
		t.Errorf("the server answers %q", got)
	}
	s.write(t, strings.ReplaceAll(orderRule, "lock:order", "lock:purchase"))
	s.eventually(t, "200 lock:purchase:42")
}

// Rules that would unlock a route, or that its requests could never fulfill, aren't
// followed.
func TestAServerKeepsItsRulesWhenNewOnesDoNotFit(t *testing.T) {
	s := openShop(t, orderRule)
	s.eventually(t, "200 lock:order:42")
	for rules, want := range map[string]string{
		"rules: []\n": "would have no rule any longer",
		strings.ReplaceAll(orderRule, "<user>", "<path.usr>"):         "<path.usr> is not a parameter of the route",
		strings.ReplaceAll(orderRule, "/orders/:user", "/orders/:id"): `did you mean "POST /orders/:user"?`,
	} {
		s.write(t, rules)
		select {
		case err := <-s.wrong:
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		case <-time.After(patience):
			t.Fatalf("nobody says that this does not fit: %s", rules)
		}
		if got := s.order("/orders/42"); got != "200 lock:order:42" {
			t.Errorf("the server answers %q", got)
		}
	}
}

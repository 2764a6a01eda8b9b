package recipes_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/examples/recipes"
)

// shop is a fleet of processes that take payments.
type shop struct {
	*recipes.Payments
	fleet   []http.Handler
	charges atomic.Int32
}

// newShop returns one whose receipts are numbered. slow is called in each charge.
func newShop(t *testing.T, store lock.Store, slow func(charge int32)) *shop {
	t.Helper()
	db, _ := database(t)
	s := &shop{}
	s.Payments = &recipes.Payments{DB: db, Charge: func(context.Context, string, int64) (string, error) {
		n := s.charges.Add(1)
		slow(n)
		return fmt.Sprint("receipt ", n), nil
	}}
	for range 2 {
		s.fleet = append(s.fleet, s.Handler(guard.Must(guard.New(process(t, store)))))
	}
	return s
}

// post sends a request to one of the processes, and returns the body, or else the status.
func (s *shop) post(ctx context.Context, process int, key, amount string) string {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/payments", strings.NewReader(url.Values{"amount": {amount}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	s.fleet[process].ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Sprint(w.Code)
	}
	return w.Body.String()
}

func TestAPaymentIsMadeOnce(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			s := newShop(t, store, func(int32) {})
			var clicks sync.WaitGroup
			for i := range 10 {
				clicks.Go(func() {
					if got := s.post(t.Context(), i%2, "k", "500"); got != "receipt 1" {
						t.Errorf("click %d: %s", i, got)
					}
				})
			}
			clicks.Wait()
			read := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/payments?amount=500", http.NoBody)
			read.Header.Set("Idempotency-Key", "of a read")
			w := httptest.NewRecorder()
			if s.fleet[0].ServeHTTP(w, read); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("a GET: %d, Allow %q", w.Code, w.Header().Get("Allow"))
			}
			for _, r := range []struct {
				what, key, amount, want string
			}{
				{"another amount", "k", "501", "422"},
				{"no key", "", "500", "400"},
				{"no amount", "k", "", "400"},
				{"another key", "l", "500", "receipt 2"},
				{"the first one again", "k", "500", "receipt 1"},
			} {
				if got := s.post(t.Context(), 0, r.key, r.amount); got != r.want {
					t.Errorf("%s: %s, want %s", r.what, got, r.want)
				}
			}
			if n := s.charges.Load(); n != 2 {
				t.Errorf("%d charges for 2 keys", n)
			}
		})
	}
}

// A client gives up during the charge, and sends its request again.
func TestAPaymentWhoseClientGaveUpIsMadeOnce(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			ctx, giveUp := context.WithCancel(t.Context())
			s := newShop(t, open(t), func(int32) { giveUp() })
			s.post(ctx, 0, "k", "500")
			if got := s.post(t.Context(), 1, "k", "500"); got != "receipt 1" {
				t.Errorf("sent again: %s", got)
			}
			if n := s.charges.Load(); n != 1 {
				t.Errorf("%d charges for one key", n)
			}
		})
	}
}

// The lock is lost during the charge, so that two are made: both get the receipt
// that the table has.
func TestTheTableDecidesWhenTheLockIsLost(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			paused, resume := make(chan struct{}), make(chan struct{})
			s := newShop(t, store, func(charge int32) {
				if charge == 1 {
					close(paused)
					<-resume
				}
			})
			late := make(chan string, 1)
			go func() { late <- s.post(t.Context(), 0, "k", "500") }()
			await(t, "the charge", paused)
			force(t, store, "lock:payment:k")
			if got := s.post(t.Context(), 1, "k", "500"); got != "receipt 2" {
				t.Errorf("the next: %s", got)
			}
			close(resume)
			if got := await(t, "the late one", late); got != "receipt 2" {
				t.Errorf("the late one: %s", got)
			}
			if receipts := query[string](t, s.DB, `SELECT receipt FROM payments`); len(receipts) != 1 {
				t.Errorf("the table has %q", receipts)
			}
		})
	}
}

package fence_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
)

const secret = "a secret of sixteen bytes or more"

func signer(t *testing.T, secrets ...string) *fence.Signer {
	t.Helper()
	var old [][]byte
	for _, s := range secrets[1:] {
		old = append(old, []byte(s))
	}
	s, err := fence.NewSigner([]byte(secrets[0]), old...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func orderKey(r *http.Request) (string, error) {
	if id := r.PathValue("id"); id != "0" {
		return "lock:order:" + id, nil
	}
	return "", fmt.Errorf("%w: no order has the id 0", fence.ErrMalformed)
}

// site serves one resource behind a gate.
func site(t *testing.T, gate *fence.Gate, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/orders/{id}", gate.Handler(handle))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// send makes a request with those headers.
func send(t *testing.T, client *http.Client, ctx context.Context, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range headers {
		request.Header.Add(fence.Header, text)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// clientOf sends the tokens of leases, and keeps no connection.
func clientOf(s *fence.Signer) *http.Client {
	return &http.Client{Transport: &fence.Transport{Base: &http.Transport{DisableKeepAlives: true}, Signer: s}}
}

func TestALateHolderIsRefusedAcrossHTTP(t *testing.T) {
	for name, s := range map[string]*fence.Signer{"plain": nil, "signed": signer(t, secret)} {
		t.Run(name, func(t *testing.T) {
			var seen []fence.Token
			server := site(t, &fence.Gate{Store: fence.NewMemory(0), Key: orderKey, Signer: s}, func(_ http.ResponseWriter, r *http.Request) {
				token, ok := fence.Admitted(r.Context())
				if !ok {
					t.Error("the handler runs without a token")
				}
				seen = append(seen, token)
			})
			client, locker := clientOf(s), newLocker(t)

			late, err := locker.Acquire(t.Context(), "lock:order:42")
			if err != nil {
				t.Fatal(err)
			}
			if response, body := send(t, client, late.Context(), server.URL+"/orders/42"); response.StatusCode != http.StatusOK {
				t.Fatalf("the holder: %d %s", response.StatusCode, body)
			}
			// What its last request carries is on its way when the lease ends.
			header := s.Format(late.Key(), of(t, late))
			if _, err := locker.ForceRelease(t.Context(), "lock:order:42"); err != nil {
				t.Fatal(err)
			}
			next, err := locker.Acquire(t.Context(), "lock:order:42")
			if err != nil {
				t.Fatal(err)
			}
			if response, body := send(t, client, next.Context(), server.URL+"/orders/42"); response.StatusCode != http.StatusOK {
				t.Fatalf("the next holder: %d %s", response.StatusCode, body)
			}
			response, body := send(t, client, t.Context(), server.URL+"/orders/42", header)
			wantProblem(t, response, body, http.StatusPreconditionFailed, "FENCE_STALE")
			if strings.Contains(body, of(t, late).Owner) || strings.Contains(body, of(t, next).Owner) {
				t.Errorf("%s names an owner", body)
			}
			if want := []fence.Token{of(t, late), of(t, next)}; len(seen) != 2 || seen[0] != want[0] || seen[1] != want[1] {
				t.Errorf("the handler ran for %v, want %v", seen, want)
			}
		})
	}
}

func wantProblem(t *testing.T, response *http.Response, body string, status int, code string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Instance, Code string
		Status                              int
		Retryable                           bool
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%d %q: %v", response.StatusCode, body, err)
	}
	if response.StatusCode != status || p.Status != status || p.Code != code {
		t.Errorf("got %d, %+v, want %d %s", response.StatusCode, p, status, code)
	}
	if p.Title == "" || p.Detail == "" || p.Instance == "" || !strings.HasSuffix(p.Type, "#"+strings.ToLower(code)) {
		t.Errorf("incomplete: %+v", p)
	}
	if got := response.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	if again := response.Header.Get("Retry-After"); p.Retryable != (again == "1") {
		t.Errorf("retryable %v with Retry-After %q", p.Retryable, again)
	}
}

// broken is a store that can't say, for a reason that nobody else may see.
type broken struct{}

func (broken) Claim(context.Context, string, fence.Token) error {
	return errors.New("dial tcp 10.0.0.7:5432: password of user sale refused")
}

func TestWhatAGateRefusesItAnswersWithoutRepeatingAnything(t *testing.T) {
	good, s := fence.New(7, "o:1"), signer(t, secret)
	guards, err := fence.NewGuards(fence.SQLite, "guards", fence.Columns{})
	if err != nil {
		t.Fatal(err)
	}
	signed := s.Format("lock:order:42", good)
	for name, tt := range map[string]struct {
		gate    fence.Gate
		path    string
		headers []string
		status  int
		code    string
	}{
		"no header":                {path: "42", status: 428, code: "FENCE_REQUIRED"},
		"no token":                 {path: "42", headers: []string{"7"}, status: 400, code: "FENCE_INVALID"},
		"an empty one":             {path: "42", headers: []string{""}, status: 400, code: "FENCE_INVALID"},
		"two headers":              {path: "42", headers: []string{good.String(), good.String()}, status: 400, code: "FENCE_INVALID"},
		"two in one":               {path: "42", headers: []string{good.String() + ", " + good.String()}, status: 400, code: "FENCE_INVALID"},
		"signed, where none is":    {path: "42", headers: []string{signed}, status: 400, code: "FENCE_INVALID"},
		"a resource without lock":  {path: "0", headers: []string{good.String()}, status: 400, code: "FENCE_INVALID"},
		"not signed":               {gate: fence.Gate{Signer: s}, path: "42", headers: []string{good.String()}, status: 403, code: "FENCE_FORGED"},
		"no token, and not signed": {gate: fence.Gate{Signer: s}, path: "42", headers: []string{"7;x"}, status: 400, code: "FENCE_INVALID"},
		"not by us":                {gate: fence.Gate{Signer: s}, path: "42", headers: []string{signer(t, "another secret of 16").Format("lock:order:42", good)}, status: 403, code: "FENCE_FORGED"},
		"of another lock":          {gate: fence.Gate{Signer: s}, path: "43", headers: []string{signed}, status: 403, code: "FENCE_FORGED"},
		"raised by hand":           {gate: fence.Gate{Signer: s}, path: "42", headers: []string{"8" + signed[1:]}, status: 403, code: "FENCE_FORGED"},
		"a key that is too long":   {gate: fence.Gate{Store: guards.On(nil)}, path: strings.Repeat("4", fence.MaxGuardKey), headers: []string{good.String()}, status: 400, code: "FENCE_INVALID"},
		"a store that cannot say":  {gate: fence.Gate{Store: broken{}}, path: "42", headers: []string{good.String()}, status: 503, code: "FENCE_UNAVAILABLE"},
		"garbage, though optional": {
			gate: fence.Gate{Optional: true}, path: "42", headers: []string{"x"}, status: 400, code: "FENCE_INVALID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.gate.Key = orderKey
			if tt.gate.Store == nil {
				tt.gate.Store = fence.NewMemory(0)
			}
			refused := 0
			tt.gate.Refused = func(_ *http.Request, err error) {
				if refused++; err == nil {
					t.Error("refused without an error")
				}
			}
			server := site(t, &tt.gate, func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") })
			response, body := send(t, clientOf(nil), t.Context(), server.URL+"/orders/"+tt.path, tt.headers...)
			wantProblem(t, response, body, tt.status, tt.code)
			for _, leak := range []string{good.Owner, "lock:order", "10.0.0.7", "dial", "no order has"} {
				if strings.Contains(body, leak) {
					t.Errorf("%s holds %q", body, leak)
				}
			}
			if refused != 1 {
				t.Errorf("refused %d times", refused)
			}
		})
	}
}

func TestAnOldSecretIsStillAccepted(t *testing.T) {
	token := fence.New(7, "o:1")
	before, changed := signer(t, secret), signer(t, "the new secret of a service", secret)
	if got, err := changed.Parse("k", before.Format("k", token)); err != nil || got != token {
		t.Errorf("signed before the change: %v, %v", got, err)
	}
	if _, err := before.Parse("k", changed.Format("k", token)); !errors.Is(err, fence.ErrForged) {
		t.Errorf("a new signature does not use the new secret: %v", err)
	}
	if _, err := fence.NewSigner([]byte("short")); err == nil {
		t.Error("a short secret is accepted")
	}
}

func TestAnOptionalGateLetsInWhoSaysNothing(t *testing.T) {
	ran := 0
	server := site(t, &fence.Gate{Store: fence.NewMemory(0), Key: orderKey, Optional: true}, func(_ http.ResponseWriter, r *http.Request) {
		ran++
		if _, ok := fence.Admitted(r.Context()); ok {
			t.Error("a token comes from nowhere")
		}
		if err := fence.Recheck(r.Context()); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("Recheck without a token: %v", err)
		}
	})
	if response, body := send(t, clientOf(nil), t.Context(), server.URL+"/orders/42"); response.StatusCode != http.StatusOK || ran != 1 {
		t.Errorf("%d %s, ran %d times", response.StatusCode, body, ran)
	}
}

func TestARecheckWithoutATokenIsRefusedAsARequestWithoutOne(t *testing.T) {
	server := site(t, &fence.Gate{Store: fence.NewMemory(0), Key: orderKey, Optional: true}, func(w http.ResponseWriter, r *http.Request) {
		fence.Refuse(w, r, fence.Recheck(r.Context()))
	})
	response, body := send(t, clientOf(nil), t.Context(), server.URL+"/orders/42")
	wantProblem(t, response, body, http.StatusPreconditionRequired, "FENCE_REQUIRED")
}

// What the operator has set up wrongly is no fault of the client's.
func TestAGateThatCannotWorkBlamesNoClient(t *testing.T) {
	admit := func(*http.Request) (string, error) { return "k", nil }
	for name, gate := range map[string]*fence.Gate{
		"guards that no constructor made": {Store: new(fence.Guards).On(nil), Key: admit},
		"a key that can't be looked up":   {Store: fence.NewMemory(0), Key: func(*http.Request) (string, error) { return "", sql.ErrConnDone }},
	} {
		t.Run(name, func(t *testing.T) {
			server := site(t, gate, func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") })
			response, body := send(t, clientOf(nil), t.Context(), server.URL+"/orders/42", fence.New(7, "o:1").String())
			wantProblem(t, response, body, http.StatusServiceUnavailable, "FENCE_UNAVAILABLE")
		})
	}
}

func TestARequestIsOvertakenWhileItIsCarriedOut(t *testing.T) {
	store := fence.NewMemory(0)
	server := site(t, &fence.Gate{Store: store, Key: orderKey}, func(w http.ResponseWriter, r *http.Request) {
		if err := fence.Recheck(r.Context()); err != nil {
			t.Errorf("right after it was let in: %v", err)
		}
		if err := store.Claim(r.Context(), "lock:order:42", fence.New(8, "next:1")); err != nil {
			t.Error(err)
		}
		if err := fence.Recheck(r.Context()); err != nil {
			fence.Refuse(w, r, err)
		}
	})
	response, body := send(t, clientOf(nil), t.Context(), server.URL+"/orders/42", fence.New(7, "late:1").String())
	wantProblem(t, response, body, http.StatusPreconditionFailed, "FENCE_STALE")
}

func TestATransportTellsNobodyElse(t *testing.T) {
	var got []string
	note := func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get(fence.Header)) }
	stranger := httptest.NewServer(http.HandlerFunc(note))
	defer stranger.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(w, r)
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	lease, err := newLocker(t).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	token := of(t, lease).String()
	client := clientOf(nil)

	send(t, client, lease.Context(), server.URL+"/here")
	send(t, client, lease.Context(), server.URL+"/away")
	send(t, client, t.Context(), server.URL+"/")
	send(t, client, lease.Context(), server.URL+"/", "9;"+owner)
	request, err := http.NewRequestWithContext(lease.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = nil
	response, err := client.Transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	want := []string{token, token, token, "", "", "9;" + owner, token}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("headers %q, want %q", got, want)
	}
}

// hops answers the first request to each address with a redirect to the next, and
// notes which carried a token. It reaches no network.
type hops struct {
	urls   []string
	tokens []bool
}

func (h *hops) RoundTrip(r *http.Request) (*http.Response, error) {
	h.tokens = append(h.tokens, r.Header.Get(fence.Header) != "")
	response := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: r}
	if next := len(h.tokens); next < len(h.urls) {
		response.StatusCode = http.StatusTemporaryRedirect
		response.Header.Set("Location", h.urls[next])
	}
	return response, nil
}

func TestATransportSendsNothingBehindAHopToAnotherPlace(t *testing.T) {
	lease, err := newLocker(t).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		urls []string
		want []bool
	}{
		"the same place":         {[]string{"https://a/1", "https://a/2", "https://a/3"}, []bool{true, true, true}},
		"in the clear":           {[]string{"https://a/1", "http://a/1"}, []bool{true, false}},
		"back from a stranger":   {[]string{"https://a/1", "https://b/1", "https://a/2"}, []bool{true, false, false}},
		"back from another port": {[]string{"https://a/1", "https://a:444/", "https://a/1", "https://a/2"}, []bool{true, false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hops{urls: c.urls}
			request, err := http.NewRequestWithContext(lease.Context(), http.MethodGet, c.urls[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := (&http.Client{Transport: &fence.Transport{Base: h}}).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if !slices.Equal(h.tokens, c.want) {
				t.Errorf("tokens were sent: %v, want %v", h.tokens, c.want)
			}
		})
	}
}

// body notes whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

// As an http.RoundTripper must, a Transport leaves the request as it is and closes its body,
// also when it sends nothing.
func TestATransportKeepsTheRulesOfARoundTripper(t *testing.T) {
	locker := newLocker(t)
	for mode, want := range map[lock.Mode]error{lock.Exclusive: nil, lock.Read: lock.ErrUnsupported} {
		lease, err := locker.Acquire(t.Context(), mode.String(), lock.WithMode(mode))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []*body{nil, {Reader: strings.NewReader("x")}} {
			request, err := http.NewRequestWithContext(lease.Context(), http.MethodPut, "https://a/1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if b != nil {
				request.Body = b
			}
			sent := 0
			transport := &fence.Transport{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				sent++
				if r.Body != nil {
					_ = r.Body.Close()
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			})}
			response, err := transport.RoundTrip(request)
			if err == nil {
				response.Body.Close()
			}
			if !errors.Is(err, want) || (sent == 1) != (want == nil) {
				t.Errorf("%v: got %v, and it was sent %d times", mode, err, sent)
			}
			if len(request.Header) != 0 {
				t.Errorf("%v: the caller's request has %v", mode, request.Header)
			}
			if b != nil && !b.closed {
				t.Errorf("%v: the body stays open", mode)
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestATransportSendsNothingUnderASharedLease(t *testing.T) {
	lease, err := newLocker(t).Acquire(t.Context(), "k", lock.WithMode(lock.Read))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request is sent") }))
	defer server.Close()
	request, err := http.NewRequestWithContext(lease.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := clientOf(nil).Do(request)
	if !errors.Is(err, lock.ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
	if err == nil {
		response.Body.Close()
	}
}

func TestAGateThatIsSetUpWronglyCannotBeRun(t *testing.T) {
	for name, gate := range map[string]*fence.Gate{
		"no store": {Key: orderKey},
		"no key":   {Store: fence.NewMemory(0)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			gate.Handler(http.NotFoundHandler())
		}()
	}
}

package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/console"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

const patience = 20 * time.Second

// counting counts the looks at a store.
type counting struct {
	*memstore.Store
	looks atomic.Int32
}

func (c *counting) List(ctx context.Context, pattern string, page int) iter.Seq2[[]lock.Listed, error] {
	c.looks.Add(1)
	return c.Store.List(ctx, pattern, page)
}

// site is a console that is served.
type site struct {
	*testing.T
	store   *counting
	locker  *lock.Locker
	console *console.Console
	url     string
}

func open(t *testing.T, opts ...console.Option) *site {
	t.Helper()
	s := &site{T: t, store: &counting{Store: memstore.New()}}
	recorder := console.NewRecorder()
	s.locker = lock.New(s.store, lock.WithIdentity(lock.Identity{Service: "shop", Host: "web-1", PID: 7}), lock.WithHooks(recorder.Hooks()))
	s.console = console.New(s.locker, append([]console.Option{
		console.WithRecorder(recorder), console.WithEvery(100 * time.Millisecond),
		console.WithAuthorizer(func(r *http.Request) (string, bool) { return "ann", r.Header.Get("X-Refuse") == "" }),
	}, opts...)...)
	server := httptest.NewServer(s.console)
	s.url = server.URL
	t.Cleanup(func() {
		s.console.Close()
		server.Close()
		if err := s.locker.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *site) do(method, path, body string, header ...string) (status int, text string) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, string(all)
}

type look struct {
	Held []struct {
		Key, Mode, Holder, Fence, Problem string
		Since                             *time.Time
	}
	Waiting, Hottest []struct {
		Key string
		N   int
	}
	Losses   []struct{ Key, Reason, Who string }
	Error    string
	Releases bool
}

// stream calls with each look until it returns true.
func (s *site) stream(ctx context.Context, seen func(l look) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events", nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Error(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		var l look
		if err := json.Unmarshal([]byte(data), &l); err != nil {
			s.Errorf("%v in %s", err, data)
			return
		}
		if seen(l) {
			return
		}
	}
	s.Error("the stream ended")
}

func (s *site) acquire(key string) *lock.Lease {
	s.Helper()
	lease, err := s.locker.Acquire(s.Context(), key)
	if err != nil {
		s.Fatal(err)
	}
	return lease
}

func TestTheConsoleIsClosedUnlessItIsOpened(t *testing.T) {
	closed := httptest.NewServer(console.New(lock.New(memstore.New())))
	defer closed.Close()
	opened := open(t)
	for _, path := range []string{"/", "/console.js", "/events", "/key?key=k"} {
		if response, err := http.Get(closed.URL + path); err != nil || response.StatusCode != http.StatusForbidden {
			t.Errorf("without an authorizer, %s: %v, %v", path, response, err)
		} else {
			_ = response.Body.Close()
		}
		if status, _ := opened.do(http.MethodGet, path, "", "X-Refuse", "1"); status != http.StatusForbidden {
			t.Errorf("refused, %s: %d", path, status)
		}
	}
	for path, want := range map[string]string{"/": "<title>", "/console.css": ":root", "/console.js": "EventSource"} {
		if status, text := opened.do(http.MethodGet, path, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestALookShowsWhoHoldsWhatAndWhatWasLost(t *testing.T) {
	s := open(t)
	lease, lost := s.acquire("order:1"), s.acquire("order:2")
	waited := make(chan error, 1)
	go func() { waited <- s.locker.Do(t.Context(), "order:1", func(context.Context) error { return nil }) }()
	if _, err := s.locker.ForceRelease(t.Context(), "order:2"); err != nil {
		t.Fatal(err)
	}
	<-lost.Context().Done()
	s.stream(t.Context(), func(l look) bool {
		return len(l.Held) == 1 && l.Held[0].Key == "order:1" && l.Held[0].Holder == "shop@web-1 pid 7" && len(l.Held[0].Fence) > 15 && l.Held[0].Since != nil &&
			len(l.Waiting) == 1 && l.Waiting[0].Key == "order:1" && len(l.Hottest) == 2 &&
			len(l.Losses) == 1 && l.Losses[0].Key == "order:2" && l.Losses[0].Reason == "forced" && !l.Releases
	})
	if err := errors.Join(lease.Release(t.Context()), <-waited); err != nil {
		t.Fatal(err)
	}
	status, text := s.do(http.MethodGet, "/key?key=order:1", "")
	var d struct {
		Held     bool
		Timeline []struct {
			Kind  string
			Fence uint64 `json:",string"`
		}
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil || status != http.StatusOK || len(d.Timeline) < 2 || d.Timeline[len(d.Timeline)-1].Kind != "granted" ||
		d.Timeline[len(d.Timeline)-1].Fence != lease.Fence() {
		t.Errorf("%d %s, %v", status, text, err)
	}
}

func TestManyViewersCostOneLook(t *testing.T) {
	s := open(t)
	s.acquire("k")
	ctx, cancel := context.WithCancel(t.Context())
	var viewers sync.WaitGroup
	var seen atomic.Int32
	for range 64 {
		viewers.Go(func() {
			looks := 0
			s.stream(ctx, func(look) bool {
				looks++
				seen.Add(1)
				return looks == 5
			})
		})
	}
	viewers.Wait()
	cancel()
	// Nobody looks twice in half of the time between two looks.
	if looks := s.store.looks.Load(); seen.Load() != 64*5 || looks < 5 || looks > 64 {
		t.Errorf("64 viewers saw %d looks, and the store %d", seen.Load(), looks)
	}
	s.quiet()
}

// quiet waits until nobody looks at the store.
func (s *site) quiet() {
	s.Helper()
	for range 100 {
		before := s.store.looks.Load()
		time.Sleep(300 * time.Millisecond) // three looks, if there are any
		if s.store.looks.Load() == before {
			return
		}
	}
	s.Error("the store is looked at without viewers")
}

func TestAReleaseNeedsTheTypedKeyAReasonAndAPermit(t *testing.T) {
	var mu sync.Mutex
	var permitted []console.Release
	s := open(t, console.WithRelease(func(_ context.Context, r console.Release) error {
		mu.Lock()
		defer mu.Unlock()
		if r.Reason == "refuse" {
			return errors.New("secret")
		}
		permitted = append(permitted, r)
		return nil
	}))
	lease := s.acquire("k")
	const kind, as = "Content-Type", "application/json"
	for name, tt := range map[string]struct {
		body   string
		header []string
		status int
	}{
		"another key typed":  {`{"key":"k","typed":"K","reason":"x"}`, []string{kind, as}, http.StatusBadRequest},
		"no reason":          {`{"key":"k","typed":"k"}`, []string{kind, as}, http.StatusBadRequest},
		"a form":             {`{"key":"k","typed":"k","reason":"x"}`, []string{kind, "text/plain"}, http.StatusBadRequest},
		"another site":       {`{"key":"k","typed":"k","reason":"x"}`, []string{kind, as, "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"no permit":          {`{"key":"k","typed":"k","reason":"refuse"}`, []string{kind, as}, http.StatusForbidden},
		"an unknown visitor": {`{"key":"k","typed":"k","reason":"x"}`, []string{kind, as, "X-Refuse", "1"}, http.StatusForbidden},
	} {
		if status, text := s.do(http.MethodPost, "/release", tt.body, tt.header...); status != tt.status || strings.Contains(text, "secret") {
			t.Errorf("%s: %d %s, want %d", name, status, text, tt.status)
		}
	}
	if lease.Context().Err() != nil || len(permitted) != 0 {
		t.Fatalf("released by a refused request: %v", permitted)
	}
	if status, text := s.do(http.MethodPost, "/release", `{"key":"k","typed":"k","reason":"it hangs"}`, kind, as); status != http.StatusOK || text != `{"freed":true}` {
		t.Errorf("%d %s", status, text)
	}
	<-lease.Context().Done()
	if len(permitted) != 1 || permitted[0].Operator != "ann" || permitted[0].Reason != "it hangs" || len(permitted[0].From) != 1 {
		t.Errorf("permitted %+v", permitted)
	}
	readOnly := open(t)
	readOnly.acquire("k")
	if status, _ := readOnly.do(http.MethodPost, "/release", `{"key":"k","typed":"k","reason":"x"}`, kind, as); status != http.StatusForbidden {
		t.Errorf("read-only: %d", status)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	s := open(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		response, err := http.Get(s.url + "/events")
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}()
	for s.store.looks.Load() == 0 {
		time.Sleep(time.Millisecond) // until the viewer has come
	}
	s.console.Close()
	<-ended
	if status, _ := s.do(http.MethodGet, "/events", ""); status != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", status)
	}
}

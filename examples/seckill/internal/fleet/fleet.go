// Package fleet runs instances of the service as processes of their own, behind a balancer
// that follows /readyz, with a page on which people kill them.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Size is how many instances there are.
const Size = 3

const (
	// lookEvery is how often the balancer asks each instance whether it is ready.
	lookEvery = 200 * time.Millisecond
	// patience is how long an instance may take to end.
	patience = 45 * time.Second
)

// Fleet is the instances and their balancer. It is safe for concurrent use.
type Fleet struct {
	log     *slog.Logger
	members [Size]*member
	next    atomic.Uint64
	stop    context.CancelFunc
	looking sync.WaitGroup
}

// Start starts the instances: path is the program, and env is added to its environment. The
// context bounds nothing but the start.
func Start(ctx context.Context, path string, env []string, log *slog.Logger) (*Fleet, error) {
	looks, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &Fleet{log: log, stop: stop}
	for n := range f.members {
		addr, err := freeAddr(ctx)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		m := &member{n: n + 1, path: path, env: env, addr: addr}
		m.proxy = f.proxy(m)
		f.members[n] = m
		if err := m.start(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.looking.Go(func() { m.look(looks) })
	}
	return f, nil
}

// freeAddr is an address that nobody listens at.
func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Close ends all instances, and waits until they have ended.
func (f *Fleet) Close() error {
	f.stop()
	f.looking.Wait()
	var all sync.WaitGroup
	var errs [Size]error
	for n, m := range f.members {
		if m != nil {
			all.Go(func() { errs[n] = m.end() })
		}
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// Handler serves the page under /fleet/, and passes everything else to an instance that
// is ready.
func (f *Fleet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /fleet/{$}", f.showPage)
	mux.HandleFunc("GET /fleet/fleet.js", showScript)
	mux.HandleFunc("POST /fleet/{n}/{do}", f.act)
	mux.HandleFunc("/", f.balance)
	return http.NewCrossOriginProtection().Handler(mux)
}

func (f *Fleet) balance(w http.ResponseWriter, r *http.Request) {
	for range f.members {
		if m := f.members[f.next.Add(1)%Size]; m.ready.Load() {
			m.proxy.ServeHTTP(w, r)
			return
		}
	}
	http.Error(w, "no instance is ready", http.StatusServiceUnavailable)
}

// proxy passes requests on, and repeats none.
func (f *Fleet) proxy(m *member) *httputil.ReverseProxy {
	target := &url.URL{Scheme: "http", Host: m.addr}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			m.ready.Store(false)
			f.log.DebugContext(r.Context(), "no answer", "instance", m.n, "cause", err)
			http.Error(w, fmt.Sprintf("instance %d gave no answer", m.n), http.StatusBadGateway)
		},
	}
}

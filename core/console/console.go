package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	// defaultEvery is the time between two looks at the store.
	defaultEvery = 2 * time.Second
	// maxRows is how many holds a look lists.
	maxRows = 2000
	// lookTimeout bounds one look.
	lookTimeout = 20 * time.Second
)

// Release is a lock that an operator takes away.
type Release struct {
	Key, Operator, Reason string
	// From are the owners that have it, with their names if they are known.
	From []string
}

// Option is a setting of [New].
type Option func(*Console)

// WithAuthorizer opens the console to the requests for which it returns true, with the
// name of the operator. It is called for every request, and for each message to a viewer.
// Without it every request gets 403. nil panics.
func WithAuthorizer(authorize func(r *http.Request) (operator string, ok bool)) Option {
	return func(c *Console) {
		if authorize == nil {
			panic("console.WithAuthorizer: nil") //nolint:forbidigo // documented: a wrong set-up cannot be run
		}
		c.authorize = authorize
	}
}

// WithRelease lets the operators take locks away for which permit returns nil: it may
// refuse by an error, which isn't shown, and keeps the audit trail. It is called before the
// lock is taken away. Without it the console is read-only. nil panics.
func WithRelease(permit func(ctx context.Context, r Release) error) Option {
	return func(c *Console) {
		if permit == nil {
			panic("console.WithRelease: nil") //nolint:forbidigo // as above
		}
		c.permit = permit
	}
}

// WithRecorder shows what a recorder has seen of this process. Default: nothing. nil panics.
func WithRecorder(r *Recorder) Option {
	return func(c *Console) {
		if r == nil {
			panic("console.WithRecorder: nil") //nolint:forbidigo // as above
		}
		c.recorder = r
	}
}

// WithPattern lists only the keys that match, as of [lock.Lister]. Default "*".
func WithPattern(pattern string) Option { return func(c *Console) { c.pattern = pattern } }

// WithEvery sets the time between two looks at the store while somebody watches. Default
// 2 s; less than 100 ms panics.
func WithEvery(d time.Duration) Option {
	return func(c *Console) {
		if d < 100*time.Millisecond {
			panic("console.WithEvery: less than 100 ms") //nolint:forbidigo // as above
		}
		c.every = d
	}
}

// Console is an http.Handler, to be mounted on a path that ends with a slash; see
// [http.StripPrefix]. Use [New].
type Console struct {
	locker    *lock.Locker
	recorder  *Recorder
	authorize func(*http.Request) (string, bool)
	permit    func(context.Context, Release) error
	pattern   string
	every     time.Duration
	mux       *http.ServeMux
	origin    *http.CrossOriginProtection

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	latest  []byte    // the last look; nil: none
	taken   time.Time // when it was
	looking bool      // the goroutine runs that looks
	closed  bool
	running sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
}

// viewer is a stream. It gets the latest look only.
type viewer struct{ next chan []byte }

// New returns a console of the locks in the store of locker, which the caller still owns.
// It does nothing until somebody looks. A locker with an identity names the holders.
func New(locker *lock.Locker, opts ...Option) *Console {
	if locker == nil {
		panic("console.New: locker is nil") //nolint:forbidigo // as above
	}
	c := &Console{
		locker: locker, recorder: NewRecorder(), pattern: "*", every: defaultEvery,
		authorize: func(*http.Request) (string, bool) { return "", false },
		origin:    http.NewCrossOriginProtection(), viewers: make(map[*viewer]struct{}),
	}
	for _, apply := range opts {
		apply(c)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mux = c.routes()
	return c
}

// Close ends all streams, and waits for the look that is under way. Later requests get
// 503. Call it before the server is shut down, which waits for streams.
func (c *Console) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.running.Wait()
}

// join adds a viewer, and begins to look if it is the first.
func (c *Console) join() (v *viewer, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	v = &viewer{make(chan []byte, 1)}
	c.viewers[v] = struct{}{}
	if c.latest != nil && time.Since(c.taken) < c.every {
		v.next <- c.latest
	}
	if !c.looking {
		c.looking = true
		c.running.Go(c.look)
	}
	return v, true
}

func (c *Console) leave(v *viewer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.viewers, v)
}

// look looks at the store for all viewers, until there is none.
func (c *Console) look() {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for c.watched() {
		if time.Since(c.lastTaken()) > c.every/2 { // viewers come and go
			c.pass(c.snapshot())
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
		}
	}
}

func (c *Console) lastTaken() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// watched says whether anybody looks. If not, the goroutine that looks ends.
func (c *Console) watched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looking = len(c.viewers) > 0 && !c.closed
	return c.looking
}

// pass gives all viewers the look, instead of an older one that they haven't sent.
func (c *Console) pass(look []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest, c.taken = look, time.Now()
	for v := range c.viewers {
		select {
		case <-v.next:
		default:
		}
		v.next <- look
	}
}

package world

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/model"
	"github.com/redlatch/redlatch/test/sim/internal/wire"
)

// server is the simulated Redis.
type server struct {
	world *World
	node  bool // of the quorum: watch judges it

	down   atomic.Bool  // it refuses connections
	stalls atomic.Int64 // until when it does nothing, in ns since the start
	fullTo atomic.Int64 // until when it runs no script

	pace   time.Duration // between two scripts; 0: as fast as they come
	turns  sync.Mutex
	busyTo time.Time // when the last of them has run

	mu       sync.Mutex
	keys     *model.Keyspace
	scripts  *model.Interpreter
	offset   time.Duration // of its clock
	sessions map[*wire.Conn]*session
	channels map[string][]*wire.Conn
	replica  []*model.Keyspace         // its past, if it can fail over: a copy every lag
	arrivals map[string]map[string]int // order of owners in queues, by key
	arrived  int
	refused  map[string]map[string]refusals // of owners since the holds of a key changed, by key
	granted  map[string]time.Time           // when an owner first got a hold, by a call or handed over
	had      map[unit]bool                  // holds that there ever were
	back     map[string]bool                // owners whose hold a late call has brought back
	messages int                            // that were published
	untold   map[string]bool                // locks that end earlier than waiters know
}

// refusals are acquire calls of one owner that were refused.
type refusals struct {
	since  time.Time
	number int
}

// session is one connection, at the server.
type session struct {
	process  *process
	channels []string
}

// lag is how far apart the copies are that a failover goes back to.
const (
	lag    = 100 * time.Millisecond
	copies = 4
)

func newServer(w *World, node bool) *server {
	s := &server{
		world: w, node: node, keys: model.New(rand.New(rand.NewPCG(w.Seed, 2))), scripts: model.NewInterpreter(),
		sessions: make(map[*wire.Conn]*session), channels: make(map[string][]*wire.Conn),
		arrivals: make(map[string]map[string]int), refused: make(map[string]map[string]refusals),
		granted: make(map[string]time.Time), untold: make(map[string]bool),
		had: make(map[unit]bool), back: make(map[string]bool),
	}
	s.keys.Publish = s.publish
	return s
}

// clock is the server's.
func (s *server) clock() time.Time { return time.Now().Add(s.offset) }

// grantedTo is when an owner first got a hold; zero: never.
func (s *server) grantedTo(owner string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted[owner]
}

// held is how much longer the server does nothing.
func (s *server) held() time.Duration {
	return time.Duration(s.stalls.Load()) - time.Since(s.world.journal.start)
}

// stall makes the server do nothing for d.
func (s *server) stall(d time.Duration) {
	s.stalls.Store(int64(time.Since(s.world.journal.start) + d))
}

// refuse makes the server run no script for d.
func (s *server) refuse(d time.Duration) {
	s.fullTo.Store(int64(time.Since(s.world.journal.start) + d))
}

// turn is how long a request waits for those before it, and takes.
func (s *server) turn(args []string) time.Duration {
	if s.pace == 0 || !strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		return 0
	}
	s.turns.Lock()
	defer s.turns.Unlock()
	now := time.Now()
	if from := now.Add(max(0, s.held())); s.busyTo.Before(from) {
		s.busyTo = from
	}
	s.busyTo = s.busyTo.Add(s.pace)
	return s.busyTo.Sub(now)
}

func (s *server) accept(c *wire.Conn, p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[c] = &session{process: p}
}

func (s *server) closed(c *wire.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
}

// forget ends a session; mu is held.
func (s *server) forget(c *wire.Conn) {
	session := s.sessions[c]
	if session == nil {
		return
	}
	for _, channel := range session.channels {
		s.leave(c, channel)
	}
	delete(s.sessions, c)
}

func (s *server) leave(c *wire.Conn, channel string) {
	s.channels[channel] = slices.DeleteFunc(s.channels[channel], func(other *wire.Conn) bool { return other == c })
	if len(s.channels[channel]) == 0 {
		delete(s.channels, channel)
	}
}

// connections returns those of a process, or all, that match.
func (s *server) connections(match func(p *process, subscribed bool) bool) (found []*wire.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, session := range s.sessions {
		if match(session.process, len(session.channels) > 0) {
			found = append(found, c)
		}
	}
	return found
}

// muted says whether a process has connections that are mute.
func (s *server) muted(p *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, session := range s.sessions {
		if session.process == p && c.Muted() {
			return true
		}
	}
	return false
}

// request runs one command of a client. What arrives after the client has
// closed the connection runs as well, and its reply goes nowhere.
func (s *server) request(c *wire.Conn, p *process, args []string, sent time.Time) {
	if s.down.Load() {
		c.HangUp()
		return
	}
	if p.countdown(&p.cutBefore) {
		s.world.journal.tell("p%d         connection cut, %s lost", p.number, args[0])
		s.world.journal.count("fault: request lost")
		p.disturb(0)
		c.Cut()
		return
	}
	s.mu.Lock()
	s.keys.SetTime(s.clock())
	reply := s.run(c, p, args, sent)
	s.mu.Unlock()
	if p.countdown(&p.cutAfter) {
		s.world.journal.tell("p%d         connection cut, reply to %s lost", p.number, args[0])
		s.world.journal.count("fault: reply lost")
		p.disturb(0)
		c.Cut()
		return
	}
	if reply != nil {
		c.Reply(reply)
	}
}

// run executes a command and returns the bytes of its reply; mu is held.
func (s *server) run(c *wire.Conn, p *process, args []string, sent time.Time) []byte {
	switch name := strings.ToLower(args[0]); name {
	case "eval", "evalsha":
		return model.Encode(nil, s.eval(p, name, args, sent))
	case "script":
		return model.Encode(nil, s.script(args))
	case "subscribe", "ssubscribe":
		return s.subscribe(c, p, name, args[1:])
	case "unsubscribe", "sunsubscribe":
		return s.unsubscribe(c, name, args[1:])
	case "ping":
		return s.ping(c, args)
	default:
		s.world.journal.count("command: " + name)
		return model.Encode(nil, s.keys.Do(args...))
	}
}

func (s *server) ping(c *wire.Conn, args []string) []byte {
	if session := s.sessions[c]; session != nil && len(session.channels) > 0 {
		message := ""
		if len(args) > 1 {
			message = args[1]
		}
		return model.Encode(nil, []model.Reply{"pong", message})
	}
	return model.Encode(nil, model.Status("PONG"))
}

func (s *server) script(args []string) model.Reply {
	switch {
	case len(args) == 3 && strings.EqualFold(args[1], "load"):
		return s.scripts.Load(args[2])
	case len(args) >= 2 && strings.EqualFold(args[1], "flush"):
		s.scripts.Flush()
		return model.Status("OK")
	case len(args) > 2 && strings.EqualFold(args[1], "exists"):
		var known []model.Reply
		for _, sha := range args[2:] {
			n := int64(0)
			if _, ok := s.scripts.Text(sha); ok {
				n = 1
			}
			known = append(known, n)
		}
		return known
	default:
		return model.Error("ERR unknown subcommand")
	}
}

func (s *server) subscribe(c *wire.Conn, p *process, name string, channels []string) []byte {
	var b []byte
	session := s.sessions[c]
	if session == nil {
		return nil
	}
	for _, channel := range channels {
		if !slices.Contains(session.channels, channel) {
			session.channels = append(session.channels, channel)
			s.channels[channel] = append(s.channels[channel], c)
		}
		b = model.Encode(b, []model.Reply{name, channel, int64(len(session.channels))})
	}
	s.world.journal.tell("p%d         subscribes to %s", p.number, strings.Join(channels, " "))
	if p.deafened.Swap(false) {
		s.world.journal.count("subscribed again")
	}
	return b
}

func (s *server) unsubscribe(c *wire.Conn, name string, channels []string) []byte {
	var b []byte
	session := s.sessions[c]
	if session == nil {
		return nil
	}
	for _, channel := range channels {
		session.channels = slices.DeleteFunc(session.channels, func(other string) bool { return other == channel })
		s.leave(c, channel)
		b = model.Encode(b, []model.Reply{name, channel, int64(len(session.channels))})
	}
	return b
}

// publish passes a message on; mu is held.
func (s *server) publish(channel, message string) int64 {
	if s.world.plant.muted(channel) {
		return 0
	}
	listeners := s.channels[channel]
	s.messages++
	s.world.journal.tell("           message %q on %s to %d", message, channel, len(listeners))
	b := model.Encode(nil, []model.Reply{"message", channel, message})
	for _, c := range listeners {
		c.Reply(b)
	}
	s.world.plant.heard(channel, len(listeners))
	return int64(len(listeners))
}

// eval runs a script, and lets the judges look at what it did; mu is held.
func (s *server) eval(p *process, name string, args []string, sent time.Time) model.Reply {
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 0 || len(args) < 3+n {
		return model.Error("ERR Number of keys can't be greater than number of args")
	}
	text := args[1]
	if name == "evalsha" {
		known := false
		if text, known = s.scripts.Text(args[1]); !known {
			s.world.journal.count("NOSCRIPT")
			return model.ErrNoScript
		}
	} else {
		s.scripts.Load(text)
	}
	if time.Since(s.world.journal.start) < time.Duration(s.fullTo.Load()) {
		s.world.journal.count("refused to write")
		return model.Error("MISCONF Errors writing to the AOF file: No space left on device")
	}
	script := s.world.Catalog.Name(text)
	call := &execution{
		process: p, script: script.File, without: script.Without, keys: args[3 : 3+n], args: args[3+n:], sent: sent,
	}
	if s.node {
		s.world.journal.count("node script: " + call.script)
		return s.scripts.Run(s.keys, text, call.keys, call.args)
	}
	s.before(call)
	call.reply = s.world.plant.run(call, func(keys, args []string) model.Reply {
		return s.scripts.Run(s.keys, text, keys, args)
	})
	s.after(call)
	return call.reply
}

// restart ends all connections, and after d serves again.
func (s *server) restart() {
	s.down.Store(true)
	for _, c := range s.connections(func(*process, bool) bool { return true }) {
		c.HangUp()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.channels)
	clear(s.sessions)
	s.scripts.Flush()
}

// replicate takes a copy of the data from time to time.
func (s *server) replicate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica = append(s.replica, s.keys.Clone())
	if len(s.replica) > copies {
		s.replica = s.replica[1:]
	}
}

// failover goes back to the oldest copy.
func (s *server) failover() {
	s.restart()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replica) > 0 {
		s.keys, s.replica = s.replica[0], nil
		clear(s.arrivals)
	}
}

// ownerPattern is an owner of this kit, wherever it stands.
var ownerPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9a-z]+`)

// ownerIn finds the owner in the name of a field or of a place in a queue.
func ownerIn(text string) string { return ownerPattern.FindString(text) }

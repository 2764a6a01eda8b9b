package managed

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/test/internal/process"
)

// Server is a Redis as a product offers it.
type Server struct {
	product  Product
	target   string
	listener net.Listener

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // nil once it is closed
	scripts map[string]string     // what the client calls a script, what the server behind calls it
	refused map[string]int

	running sync.WaitGroup
}

// Serve starts a server in front of the Redis at target (host:port). It ends
// with t.
func (p Product) Serve(t process.Host, target string) *Server {
	t.Helper()
	s := &Server{
		product: p, target: target,
		conns: make(map[net.Conn]struct{}), scripts: make(map[string]string), refused: make(map[string]int),
	}
	var err error
	for range 5 { // another process may take the port between the look and the listen
		if s.listener, err = net.Listen("tcp", process.LoopbackAddr(process.Port(t))); err == nil {
			s.running.Go(s.serve)
			t.Cleanup(s.close)
			return s
		}
	}
	t.Fatalf("managed: listen: %v", err)
	return nil
}

// Addr is the address for clients, host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Refused counts what was refused: commands by their name, and scripts that were
// refused when they were read as "a script".
func (s *Server) Refused(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[what]
}

func (s *Server) refuse(what, reply string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[what]++
	return refusal(reply)
}

// learn returns a script as the server behind gets it.
func (s *Server) learn(text string) string {
	run := s.product.watch(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[shaOf(text)] = shaOf(run)
	return run
}

// known returns the name that the server behind has for a script. One that came
// to that server on another way wasn't read, so it isn't known.
func (s *Server) known(sha string) (run string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, known = s.scripts[strings.ToLower(sha)]
	return run, known
}

func (s *Server) serve() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.running.Go(func() { s.connect(client) })
	}
}

// connect forwards one connection until either side ends it.
func (s *Server) connect(client net.Conn) {
	defer s.drop(client)
	server, err := net.Dial("tcp", s.target)
	if err != nil {
		return
	}
	defer s.drop(server)
	if !s.keep(client) || !s.keep(server) {
		return
	}
	s.running.Go(func() {
		defer s.drop(client)
		_, _ = io.Copy(client, server) // its end is that of the connection
	})
	commands := bufio.NewReader(client)
	for {
		args, err := readCommand(commands)
		if err != nil {
			return
		}
		if _, err := server.Write(writeCommand(s.rewrite(args))); err != nil {
			return
		}
	}
}

func (s *Server) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Server) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.Close() // a second time does nothing
}

func (s *Server) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.running.Wait()
}

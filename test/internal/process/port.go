package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from below the range that kernels hand to outgoing
// connections (32768 and up on Linux). A port found with ":0" lies inside that
// range: while its server is down, any client on the machine can be given it,
// and the server does not come back. Redis Cluster also needs port+10000.
const (
	firstPort = 11000
	lastPort  = 22000
	busOffset = 10000
)

var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: make(map[int]bool)}

// Port returns a loopback port that is free now, together with the port 10000
// above it, and that this process has not been given before. Another process can
// still be faster: callers that fail to listen ask again.
func Port(t Host) int {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !handedOut.ports[port] && free(port) && free(port+busOffset) {
			handedOut.ports[port] = true
			return port
		}
	}
	t.Fatalf("process: no free port between %d and %d", firstPort, lastPort)
	return 0
}

// LoopbackAddr is the address of a port on the loopback interface.
func LoopbackAddr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func free(port int) bool {
	listener, err := net.Listen("tcp", LoopbackAddr(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

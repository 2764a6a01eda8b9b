package process

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from below the range that kernels hand to outgoing
// connections (32768 and up on Linux). A port found with ":0" lies inside that
// range: while its server is down, any client on the machine can be given it,
// and the server doesn't come back. Redis Cluster also needs port+10000.
const (
	firstPort = 11000
	lastPort  = 22000
	busOffset = 10000
)

// Port returns a loopback port that is free, together with the port 10000 above
// it. No other test is given it before t ends, in whatever process, so that a
// server can be away and come back. What asks elsewhere can still be faster:
// callers that fail to listen ask again.
func Port(t Host) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		reserved, err := reserve(port)
		if err != nil {
			continue // another test's
		}
		if free(port) && free(port+busOffset) {
			t.Cleanup(func() { _ = reserved.Close() })
			return port
		}
		_ = reserved.Close()
	}
	t.Fatalf("process: no free port between %d and %d", firstPort, lastPort)
	return 0
}

// reserve shows other processes that a port is taken, by the UDP port of the
// same number, which no server here has a use for. It ends with this process.
func reserve(port int) (net.PacketConn, error) {
	return net.ListenPacket("udp", LoopbackAddr(port))
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

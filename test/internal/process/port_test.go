package process_test

import (
	"net"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
)

// While its server is away, nobody else may be given the port of a test, nor
// may another process: that is why a socket of the system says so.
func TestAPortIsReservedUntilItsTestEnds(t *testing.T) {
	var port int
	t.Run("who has it", func(t *testing.T) {
		port = process.Port(t)
		if other, err := net.ListenPacket("udp", process.LoopbackAddr(port)); err == nil {
			t.Error("another process could have reserved it")
			_ = other.Close()
		}
		listener, err := net.Listen("tcp", process.LoopbackAddr(port))
		if err != nil {
			t.Fatalf("its server cannot have it: %v", err)
		}
		_ = listener.Close()
	})
	after, err := net.ListenPacket("udp", process.LoopbackAddr(port))
	if err != nil {
		t.Fatalf("it is not returned: %v", err)
	}
	_ = after.Close()
}

func TestPortIsNeverHandedOutTwice(t *testing.T) {
	seen := make(map[int]bool)
	for range 200 {
		port := process.Port(t)
		if seen[port] {
			t.Fatalf("port %d twice", port)
		}
		seen[port] = true
		listener, err := net.Listen("tcp", process.LoopbackAddr(port))
		if err != nil {
			t.Fatalf("port %d is not free: %v", port, err)
		}
		listener.Close()
	}
}

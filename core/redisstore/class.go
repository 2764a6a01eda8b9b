package redisstore

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// classOf is the class of a failed call, for [lock.StoreError]. An error reply
// has its own code, if it is a known one: what else a server says may hold
// anything.
func classOf(err error) string {
	if reply, ok := errorReply(err); ok {
		return classOfReply(reply)
	}
	var network net.Error
	var name *net.DNSError
	switch {
	case errors.Is(err, redis.ErrClosed):
		return "client closed"
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return "no free connection"
	case errors.Is(err, ErrReply):
		return "bad reply"
	case isHandshake(err):
		return "TLS"
	case errors.As(err, &name):
		return "name not resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &network) && network.Timeout(): // context.DeadlineExceeded is one
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "connection lost"
	case errors.As(err, &network):
		return "network"
	}
	return "" // lock.ClassOf knows the errors of contexts
}

func classOfReply(text string) string {
	code, rest := splitReply(text)
	if _, known := replies[code]; known {
		return code
	}
	for _, g := range generic {
		if code == "ERR" && strings.HasPrefix(rest, g.text) {
			return g.class
		}
	}
	return "error reply"
}

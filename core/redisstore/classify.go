package redisstore

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
)

// replies maps the first word of an error reply to what it says about the script.
// A reply that is not here leaves the outcome unknown.
var replies = map[string]lock.Outcome{
	// Not now, or not here; nothing has run.
	"NOSCRIPT":    lock.OutcomeNotExecuted,
	"MOVED":       lock.OutcomeNotExecuted,
	"ASK":         lock.OutcomeNotExecuted,
	"TRYAGAIN":    lock.OutcomeNotExecuted,
	"CLUSTERDOWN": lock.OutcomeNotExecuted,
	"LOADING":     lock.OutcomeNotExecuted,
	"READONLY":    lock.OutcomeNotExecuted,
	"MASTERDOWN":  lock.OutcomeNotExecuted,
	"BUSY":        lock.OutcomeNotExecuted,
	"OOM":         lock.OutcomeNotExecuted,
	"NOREPLICAS":  lock.OutcomeNotExecuted,

	// Never, until somebody changes the set-up.
	"NOAUTH":    lock.OutcomeRefused,
	"WRONGPASS": lock.OutcomeRefused,
	"NOPERM":    lock.OutcomeRefused,
	"WRONGTYPE": lock.OutcomeRefused,
	"CROSSSLOT": lock.OutcomeRefused,
	"MISCONF":   lock.OutcomeRefused,
	"DENIED":    lock.OutcomeRefused, // protected mode
}

// generic does the same for replies that only say ERR, by how they go on.
var generic = []struct {
	text    string
	outcome lock.Outcome
	class   string
}{
	{"max number of clients", lock.OutcomeNotExecuted, "too many clients"},
	// The lock expired in a slot that is moving, as the script began. Later
	// it cannot happen: no script looks at a lock that it has removed.
	{"Script attempted to access a non local key", lock.OutcomeNotExecuted, "TRYAGAIN"},
	{"Lua script attempted to access a non local key", lock.OutcomeNotExecuted, "TRYAGAIN"}, // Redis 6.2
	{"Attempted to access a non local key", lock.OutcomeNotExecuted, "TRYAGAIN"},            // Valkey 9
	// Before a command that was refused inside a script, others may have run.
	{"The user executing the script ", lock.OutcomeUnknown, "NOPERM"},
	{"ACL failure in script: ", lock.OutcomeUnknown, "NOPERM"}, // from Redis 7.2 on
	{"This Redis command is not allowed from script", lock.OutcomeUnknown, "script refused"},
	{"This Valkey command is not allowed from script", lock.OutcomeUnknown, "script refused"},
	{"unknown command", lock.OutcomeRefused, "unknown command"},
	{"bad lua script", lock.OutcomeRefused, "script refused"}, // by a provider that reads scripts first
	{"AUTH ", lock.OutcomeRefused, "WRONGPASS"},               // a password for a server without one
	{"invalid password", lock.OutcomeRefused, "WRONGPASS"},
	{"DB index is out of range", lock.OutcomeRefused, "wrong database"},
	{"SELECT is not allowed in cluster mode", lock.OutcomeRefused, "wrong database"},
	{"This instance has cluster support disabled", lock.OutcomeRefused, "no cluster"},
}

// wrapped finds, in the reply of a script before Redis 7, the error of the
// command inside: "ERR Error running script (call to f_1a2b): @user_script:7:
// @user_script: 7: -OOM command not allowed …". It may have no code: "The user
// executing the script can't …".
var (
	wrapped = regexp.MustCompile(`^ERR Error running script.*@user_script: ?\d+: -?(.*)$`)
	coded   = regexp.MustCompile(`^[A-Z]+ `)
)

// failure says what the error of a call means for the lock. In a cluster it
// also looks for the node that serves now: a dead one sends no redirection.
func (s *Store) failure(err error) error {
	if err == nil {
		return nil
	}
	var known *lock.StoreError
	if errors.As(err, &known) {
		return err
	}
	away := isUnreachable(err)
	if s.cluster != nil && away {
		s.topology.reload()
	}
	outcome, class := meaningOf(err)
	return &lock.StoreError{Outcome: outcome, Unreachable: away, Class: class, Err: err}
}

// meaningOf says what became of the call that failed, and the class of the failure.
func meaningOf(err error) (lock.Outcome, string) {
	if reply, ok := errorReply(err); ok {
		return meaningOfReply(reply)
	}
	switch {
	case errors.Is(err, redis.ErrClosed):
		return lock.OutcomeRefused, "client closed"
	case isHandshake(err):
		return lock.OutcomeRefused, "TLS"
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return lock.OutcomeNotExecuted, "no free connection"
	case isDial(err):
		return lock.OutcomeNotExecuted, classOfNetwork(err)
	}
	return lock.OutcomeUnknown, classOfNetwork(err)
}

// classOfNetwork is the class of an error of a connection.
func classOfNetwork(err error) string {
	var network net.Error
	var name *net.DNSError
	switch {
	case errors.Is(err, ErrReply):
		return "bad reply"
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

// errorReply is what the server said, if it did.
func errorReply(err error) (text string, ok bool) {
	if err == nil {
		return "", false // without an allocation
	}
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return "", false
	}
	return reply.Error(), true
}

// meaningOfReply is that of an error reply. Its class is its code, if that is a known
// one: what else a server says may hold anything.
func meaningOfReply(text string) (lock.Outcome, string) {
	code, rest := splitReply(text)
	if outcome, known := replies[code]; known {
		return outcome, code
	}
	for _, g := range generic {
		if code == "ERR" && strings.HasPrefix(rest, g.text) {
			return g.outcome, g.class
		}
	}
	return lock.OutcomeUnknown, "error reply"
}

// splitReply returns the code of an error reply, and what follows it.
func splitReply(text string) (code, rest string) {
	if inner := wrapped.FindStringSubmatch(text); inner != nil {
		if text = inner[1]; !coded.MatchString(text) {
			return "ERR", text
		}
	}
	code, rest, _ = strings.Cut(text, " ")
	return code, rest
}

// isTryAgain: the slot is migrating, and not all keys are in one place.
func isTryAgain(err error) bool { return err != nil && redis.HasErrorPrefix(err, "TRYAGAIN") }

// isWrongType: the key is of another type than the script's lock.
func isWrongType(err error) bool {
	reply, ok := errorReply(err)
	if !ok {
		return false
	}
	code, _ := splitReply(reply)
	return code == "WRONGTYPE"
}

func isNoScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// isDial: there was no connection, so nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// isHandshake: the server is not the one we may talk to. A record that is broken later has
// no connection.
func isHandshake(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) && record.Conn != nil
}

// isUnreachable: there was no answer from the node. A failure that is classified says
// it: what was not sent for want of time is no news of the server.
func isUnreachable(err error) bool {
	if known, classified := errors.AsType[*lock.StoreError](err); classified {
		return known.Unreachable
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

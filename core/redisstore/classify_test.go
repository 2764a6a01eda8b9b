package redisstore_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
)

// reply is an error that a server sent.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// Operators look up what a line of the log calls the cause.
func TestTheManualHasEveryClassOfAFailure(t *testing.T) {
	manual, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(manual), "\n| cause | means |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, class := range redisstore.Classes() {
		// NOSCRIPT is answered by the text of the script.
		if class != "NOSCRIPT" && !strings.Contains(table, "`"+class+"`") {
			t.Errorf("docs/telemetry.md has no cause %q", class)
		}
	}
}

func TestErrorsTellWhatBecameOfTheScript(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	tests := []struct {
		err  error
		want lock.Outcome
	}{
		{reply("NOSCRIPT No matching script. Please use EVAL."), lock.OutcomeNotExecuted},
		{reply("MOVED 3999 127.0.0.1:6381"), lock.OutcomeNotExecuted},
		{reply("ASK 3999 127.0.0.1:6381"), lock.OutcomeNotExecuted},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), lock.OutcomeNotExecuted},
		{reply("CLUSTERDOWN The cluster is down"), lock.OutcomeNotExecuted},
		{reply("LOADING Redis is loading the dataset in memory"), lock.OutcomeNotExecuted},
		{reply("READONLY You can't write against a read only replica."), lock.OutcomeNotExecuted},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), lock.OutcomeNotExecuted},
		{reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), lock.OutcomeNotExecuted},
		{reply("OOM command not allowed when used memory > 'maxmemory'. script: 7a9b, on @user_script:41."), lock.OutcomeNotExecuted},
		{reply("NOREPLICAS Not enough good replicas to write."), lock.OutcomeNotExecuted},
		{reply("ERR max number of clients reached"), lock.OutcomeNotExecuted},
		{reply("ERR Script attempted to access a non local key in a cluster node script: 77f5, on @user_script:32."), lock.OutcomeNotExecuted},
		{redis.ErrPoolTimeout, lock.OutcomeNotExecuted},
		{redis.ErrPoolExhausted, lock.OutcomeNotExecuted},
		{dial, lock.OutcomeNotExecuted},
		{fmt.Errorf("all sentinels are unreachable: %w", errors.Join(dial, dial)), lock.OutcomeNotExecuted},
		{fmt.Errorf("%w: %w", context.DeadlineExceeded, dial), lock.OutcomeNotExecuted},

		{reply("NOAUTH Authentication required."), lock.OutcomeRefused},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), lock.OutcomeRefused},
		{reply("NOPERM this user has no permissions to run the 'evalsha' command"), lock.OutcomeRefused},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value script: 7a9b, on @user_script:3."), lock.OutcomeRefused},
		{reply("CROSSSLOT Keys in request don't hash to the same slot"), lock.OutcomeRefused},
		{redis.ErrCrossSlot, lock.OutcomeRefused},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), lock.OutcomeRefused},
		{reply("DENIED Redis is running in protected mode"), lock.OutcomeRefused},
		{reply("ERR unknown command 'evalsha', with args beginning with:"), lock.OutcomeRefused},
		{reply("ERR AUTH <password> called without any password configured for the default user."), lock.OutcomeRefused},
		{reply("ERR invalid password"), lock.OutcomeRefused},
		{reply("ERR DB index is out of range"), lock.OutcomeRefused},
		{redis.ErrClosed, lock.OutcomeRefused},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, lock.OutcomeRefused},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake", Conn: notTLS}, lock.OutcomeRefused},
		{tls.RecordHeaderError{Msg: "a later record"}, lock.OutcomeUnknown},

		// Before Redis 7 the error of the command is inside that of the script.
		{reply("ERR Error running script (call to f_0a9a): @user_script:41: @user_script: 41: -OOM command not allowed when used memory > 'maxmemory'."), lock.OutcomeNotExecuted},
		{reply("ERR Error running script (call to f_0a9a): @user_script:41: @user_script: 41: -READONLY You can't write against a read only replica."), lock.OutcomeNotExecuted},
		{reply("ERR Error running script (call to f_0a9a): @user_script:3: WRONGTYPE Operation against a key holding the wrong kind of value"), lock.OutcomeRefused},

		{reply("ERR Error running script (call to f_0a9a): @user_script:3: @user_script: 3: Lua script attempted to access a non local key in a cluster node"), lock.OutcomeNotExecuted},
		{reply("ERR Attempted to access a non local key in a cluster node script: on @user_script:32."), lock.OutcomeNotExecuted},

		// Something of the script may have run.
		{reply("ERR Error running script (call to f_0a9a): @user_script:53: @user_script: 53: The user executing the script can't run this command or subcommand"), lock.OutcomeUnknown},
		{reply("ERR ACL failure in script: User poor has no permissions to run the 'hset' command script: 7a9b, on @user_script:53."), lock.OutcomeUnknown},
		{reply("ERR This Redis command is not allowed from script script: 7a9b, on @user_script:13."), lock.OutcomeUnknown},
		{reply("ERR Error running script (call to f_0a9a): @user_script:3: user_script:3: attempt to compare nil with number"), lock.OutcomeUnknown},
		{reply("ERR something new"), lock.OutcomeUnknown},
		{reply("NEWCODE something new"), lock.OutcomeUnknown},
		{io.EOF, lock.OutcomeUnknown},
		{io.ErrUnexpectedEOF, lock.OutcomeUnknown},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, lock.OutcomeUnknown},
		{&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, lock.OutcomeUnknown},
		{context.Canceled, lock.OutcomeUnknown},
		{context.DeadlineExceeded, lock.OutcomeUnknown},
		{redis.Nil, lock.OutcomeUnknown},
		{errors.New("something else"), lock.OutcomeUnknown},
	}
	for _, tt := range tests {
		if got := redisstore.OutcomeOf(tt.err); got != tt.want {
			t.Errorf("%v: outcome %d, want %d", tt.err, got, tt.want)
		}
		if got := redisstore.OutcomeOf(fmt.Errorf("hook: %w", tt.err)); got != tt.want {
			t.Errorf("wrapped %v: outcome %d, want %d", tt.err, got, tt.want)
		}
	}
}

// notTLS is the connection of a first record that isn't TLS.
var notTLS, _ = net.Pipe()

func TestClassesOfErrors(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for want, errs := range map[string][]error{
		"NOPERM": {
			reply("NOPERM this user has no permissions to run the 'evalsha' command"),
			reply("ERR Error running script (call to f_0a9a): @user_script:9: @user_script: 9: The user executing the script can't publish to the channel mentioned in the command"),
			reply("ERR The user executing the script can't run this command or subcommand script: 7a9b, on @user_script:53."),
			reply("ERR ACL failure in script: No permissions to access a channel script: 7a9b, on @user_script:9."),
		},
		"script refused": {
			reply("ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array"),
			reply("ERR This Redis command is not allowed from script script: 7a9b, on @user_script:13."),
			reply("ERR This Valkey command is not allowed from script script: on @user_script:13."),
		},
		"OOM":                {reply("OOM no"), reply("ERR Error running script (call to f_0a9a): @user_script:41: @user_script: 41: -OOM command not allowed")},
		"WRONGPASS":          {reply("WRONGPASS invalid"), reply("ERR invalid password")},
		"unknown command":    {reply("ERR unknown command 'evalsha', with args beginning with:")},
		"error reply":        {reply("ERR lock:order:42"), reply("ERR Error running script (call to f_0a9a): @user_script:3: user_script:3: attempt to compare nil with number"), reply("SECRET lock:order:42"), reply(""), reply("ERR")},
		"connection refused": {refused, fmt.Errorf("all sentinels are unreachable: %w", errors.Join(refused, refused))},
		"timeout":            {&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, context.DeadlineExceeded},
		"connection lost":    {io.EOF, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}},
		"name not resolved":  {&net.OpError{Op: "dial", Err: &net.DNSError{Name: "redis", IsNotFound: true}}},
		"TLS":                {tls.RecordHeaderError{Conn: notTLS}, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
		"no free connection": {redis.ErrPoolTimeout},
		"client closed":      {redis.ErrClosed},
		"network":            {&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}},
		"":                   {errors.New("lock:order:42"), context.Canceled},
	} {
		for _, err := range errs {
			if got := redisstore.ClassOf(fmt.Errorf("hook: %w", err)); got != want {
				t.Errorf("%v: class %q, want %q", err, got, want)
			}
		}
	}
}

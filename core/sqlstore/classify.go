package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/redlatch/redlatch/core/lock"
)

var errNoMeta = errors.New("sqlstore: redlatch_meta has no row: see Store.Check")

// meaning is what an answer of the database says of a call: whether it ran, and the class
// of the failure. again is for a transaction that was rolled back because of others.
type meaning struct {
	outcome lock.Outcome
	class   string
	again   bool
}

var (
	conflict   = meaning{lock.OutcomeNotExecuted, "conflict", true}
	rowLocked  = meaning{lock.OutcomeNotExecuted, "row locked", false}
	full       = meaning{lock.OutcomeNotExecuted, "no resources", false}
	readOnly   = meaning{lock.OutcomeNotExecuted, "read only", false}
	canceled   = meaning{lock.OutcomeNotExecuted, "canceled by the database", false}
	noSchema   = meaning{lock.OutcomeRefused, "no schema", false}
	forbidden  = meaning{lock.OutcomeRefused, "no permission", false}
	refused    = meaning{lock.OutcomeRefused, "statement refused", false}
	unprepared = meaning{lock.OutcomeRefused, "prepared statements behind a pooler", false}
	ending     = meaning{lock.OutcomeUnknown, "shutdown", false} // perhaps behind the commit
	answered   = meaning{lock.OutcomeUnknown, "error reply", false}
)

// states are those of PostgreSQL, by SQLSTATE or else by its class.
var states = map[string]meaning{
	"40": conflict, "40003": answered, "55P03": rowLocked,
	"53": full, "55": full, "57014": canceled, "57P01": ending, "57P02": ending, "57": canceled,
	"25006": readOnly,
	"42P01": noSchema, "42703": noSchema, "3F000": noSchema, "3D000": noSchema,
	"42501": forbidden, "28": forbidden,
	"42P05": unprepared, "26000": unprepared, "08P01": unprepared,
	"42": refused, "22": refused, "23": refused, "0A": refused,
}

// numbers are those of MySQL and MariaDB.
var numbers = map[int]meaning{
	1213: conflict, 1020: conflict, 1205: rowLocked,
	1040: full, 1203: full, 1226: full, 1041: full, 1021: full, 1114: full,
	1290: readOnly, 1836: readOnly, 1792: readOnly,
	3024: canceled, 1969: canceled,
	1146: noSchema, 1054: noSchema, 1049: noSchema, 1046: noSchema,
	1044: forbidden, 1045: forbidden, 1142: forbidden, 1143: forbidden, 1227: forbidden,
	1064: refused, 1305: refused, 1406: refused, 1264: refused,
	1053: ending, 1927: ending, 1317: ending,
}

// codes are the primary result codes of SQLite.
var codes = map[int]meaning{
	5: conflict, 6: conflict,
	7: full, 13: full, 14: full, 8: readOnly,
	1: noSchema, 3: forbidden, 23: forbidden, 11: refused, 19: refused, 26: refused,
}

// texts are errors of SQLite from drivers that don't show the code.
var texts = map[string]meaning{
	"database is locked": conflict, "database table is locked": conflict, "no such table": noSchema,
}

// mysqlText is how the errors of MySQL begin, whatever the driver.
var mysqlText = regexp.MustCompile(`^Error (\d+)(?: \([0-9A-Z]{5}\))?: `)

// meaningOf finds the answer of the database in an error. Drivers have no type of error
// in common. ok is false if the database didn't answer.
func (k *keys) meaningOf(err error) (m meaning, ok bool) {
	switch k.dialect {
	case PostgreSQL:
		return meaningOfState(err)
	case MySQL:
		return meaningOfNumber(err)
	}
	return meaningOfCode(err)
}

func meaningOfState(err error) (m meaning, ok bool) {
	stated, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	if !ok {
		return m, false
	}
	state := stated.SQLState()
	if m, ok = states[state]; ok {
		return m, true
	}
	if m, ok = states[state[:min(2, len(state))]]; ok {
		return m, true
	}
	return answered, true
}

func meaningOfNumber(err error) (m meaning, ok bool) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if found := mysqlText.FindStringSubmatch(inner.Error()); found != nil {
			n, _ := strconv.Atoi(found[1])
			if m, ok = numbers[n]; !ok {
				m = answered
			}
			return m, true
		}
	}
	return m, false
}

func meaningOfCode(err error) (m meaning, ok bool) {
	coded, found := errors.AsType[interface {
		error
		Code() int
	}](err)
	if found {
		if m, ok = codes[coded.Code()&0xff]; !ok {
			m = answered
		}
		return m, true
	}
	for text, m := range texts {
		if strings.Contains(err.Error(), text) {
			return m, true
		}
	}
	return m, false
}

// failure classifies the error of a call that may have been sent.
func (k *keys) failure(err error) error {
	if known, ok := errors.AsType[*lock.StoreError](err); ok {
		return known
	}
	if m, ok := k.meaningOf(err); ok {
		return &lock.StoreError{Outcome: m.outcome, Class: m.class, Err: err}
	}
	failed := &lock.StoreError{Class: classOfNetwork(err), Unreachable: isUnreachable(err), Err: err}
	if isUnsent(err) {
		failed.Outcome = lock.OutcomeNotExecuted
	}
	return failed
}

// unsent classifies the error of a call that had no connection.
func (k *keys) unsent(err error) error {
	failed := &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Class: classOfNetwork(err), Unreachable: isUnreachable(err), Err: err}
	if m, ok := k.meaningOf(err); ok {
		failed.Class = m.class
		if m.outcome == lock.OutcomeRefused {
			failed.Outcome = lock.OutcomeRefused
		}
	}
	if strings.Contains(err.Error(), "sql: database is closed") { // it has no name
		failed.Outcome, failed.Class = lock.OutcomeRefused, "client closed"
	}
	return failed
}

// isRolledBack reports whether the call did nothing because of others, or because its
// connection was dead, and may succeed when repeated. A server that can't be reached is
// the caller's to wait for.
func (k *keys) isRolledBack(err error) bool {
	m, ok := k.meaningOf(err)
	return ok && m.again || !ok && isUnsent(err) && !isDial(err)
}

// isRowLocked reports whether a call waited too long for the row of its key.
func (k *keys) isRowLocked(err error) bool {
	m, ok := k.meaningOf(err)
	return ok && m == rowLocked
}

// isUnsent reports whether the driver knows that it has sent nothing.
func isUnsent(err error) bool {
	if retry, ok := errors.AsType[interface {
		error
		SafeToRetry() bool
	}](err); ok && retry.SafeToRetry() {
		return true
	}
	return isDial(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

// isDial reports whether there was no connection to the server.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// classOfNetwork is the class of an error of a connection.
func classOfNetwork(err error) string {
	_, unresolved := errors.AsType[*net.DNSError](err)
	network, isNetwork := errors.AsType[net.Error](err)
	switch {
	case unresolved:
		return "name not resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), isNetwork && network.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, driver.ErrBadConn),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "connection lost"
	case isNetwork:
		return "network"
	}
	return ""
}

// isUnreachable: there was no answer.
func isUnreachable(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn)
}

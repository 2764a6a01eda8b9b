package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// maxAttempts bounds how often something is tried that the database refused for the
// sake of others.
const maxAttempts = 8

// retry calls do until it succeeds, fails for good, or has had its chances.
// What do does must be safe to do again.
func retry(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || attempt == maxAttempts || !transient(err) {
			return err
		}
		if pause(ctx, attempt) != nil {
			return err
		}
	}
}

// errEarlier: an earlier attempt may have been carried out before the newer holder came.
var errEarlier = errors.New("the lock has a newer holder, and an earlier attempt was not confirmed")

// retryClaim is retry for what claims a fence. A fence that is stale at a later attempt
// doesn't mean that nothing was done.
func retryClaim(ctx context.Context, do func() error) error {
	attempts := 0
	return retry(ctx, func() error {
		attempts++
		err := do()
		if attempts > 1 && errors.Is(err, fence.ErrStale) {
			return errEarlier
		}
		return err
	})
}

// pause waits longer with each attempt, never in step with others.
func pause(ctx context.Context, attempt int) error {
	limit := min(5*time.Millisecond<<attempt, 500*time.Millisecond)
	timer := time.NewTimer(limit/2 + rand.N(limit/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transient reports whether the same call may succeed next time: deadlocks,
// serialization failures, a busy file, a connection that broke.
func transient(err error) bool {
	var (
		lite *sqlite.Error
		my   *mysql.MySQLError
		pg   *pgconn.PgError
		op   *net.OpError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &lite):
		code := lite.Code() & 0xff // without the extension
		return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
	case errors.As(err, &my):
		switch my.Number {
		case 1020, // the record changed since it was read
			1040, // too many connections
			1053, // the server is shutting down
			1205, // lock wait timeout
			1213: // deadlock
			return true
		}
		return false
	case errors.As(err, &pg):
		return strings.HasPrefix(pg.Code, "40") || // deadlock, serialization
			strings.HasPrefix(pg.Code, "57P") || // the server is going or coming
			pg.Code == "53300" || pg.Code == "55P03" // connections, lock timeout
	case errors.As(err, &op):
		return op.Op != "dial" // nobody there: waiting is the client's choice
	default:
		return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
			errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	}
}

// duplicate reports whether a unique index refused a row.
func duplicate(err error) bool {
	var (
		lite *sqlite.Error
		my   *mysql.MySQLError
		pg   *pgconn.PgError
	)
	switch {
	case errors.As(err, &lite):
		return lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	case errors.As(err, &my):
		return my.Number == 1062
	case errors.As(err, &pg):
		return pg.Code == "23505"
	default:
		return false
	}
}

// decisions are the answers of the store that aren't failures.
var decisions = []error{
	voucher.ErrVoucherNotFound, voucher.ErrOrderNotFound,
	voucher.ErrAlreadyOrdered, voucher.ErrSoldOut,
}

// answer turns the error of a database into one of [voucher]: a decision
// stands, the end of the caller's context is the context's, everything else
// is [voucher.ErrStoreUnavailable].
func answer(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrMalformed) { // the latter has no lock at all
		return voucher.ErrStaleFence
	}
	for _, decision := range decisions {
		if errors.Is(err, decision) {
			return decision
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %s: %w", voucher.ErrStoreUnavailable, op, err)
}

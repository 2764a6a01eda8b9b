// Package pgxlisten connects core/sqlstore to pgx: it hears the notifications of
// PostgreSQL, which database/sql can't, and releases locks in transactions of pgx.
//
//	store, err := sqlstore.New(db, sqlstore.PostgreSQL, sqlstore.WithListener(pgxlisten.New(config)))
//
// The listener has one connection while somebody in the process waits for a lock. That
// connection must be to the server itself: a pooler in transaction mode loses
// subscriptions.
package pgxlisten

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// quiet is after how long without a notification the connection is tested. One that
	// was cut somewhere on the way says nothing of it.
	quiet = 10 * time.Second
	// patience bounds a test, and the end of a connection.
	patience = 5 * time.Second
)

// Listener implements sqlstore.Listener. Use [New].
type Listener struct{ config *pgx.ConnConfig }

// New returns a listener that connects as the configuration says, of which it keeps a
// copy. It does no I/O. The configuration must be one that pgx.ParseConfig has made.
func New(config *pgx.ConnConfig) *Listener { return &Listener{config.Copy()} }

// Listen connects, subscribes to the channel, calls ready, and then calls notify for each
// notification. It returns when ctx ends or the connection is lost, with the reason.
func (l *Listener) Listen(ctx context.Context, channel string, ready func(), notify func(payload string)) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer hangUp(ctx, conn)
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	ready()
	for {
		payload, err := next(ctx, conn)
		if err != nil {
			return err
		}
		if payload != "" {
			notify(payload)
		}
	}
}

// next waits for a notification. None for some time is an empty one, if the server still
// answers.
func next(ctx context.Context, conn *pgx.Conn) (payload string, err error) {
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return notification.Payload, nil
	case ctx.Err() != nil || waiting.Err() == nil:
		return "", err
	}
	testing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return "", conn.Ping(testing)
}

func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = conn.Close(ctx) // a connection that fails to close is gone
}

// Tx is a transaction of pgx for sqlstore.Store.ReleaseTx:
//
//	err := store.ReleaseTx(ctx, pgxlisten.Tx{Tx: tx}, lease)
type Tx struct{ pgx.Tx }

// ExecContext runs a statement.
func (t Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.Exec(ctx, query, args...)
	return rows(tag.RowsAffected()), err
}

// rows is how many a statement has changed.
type rows int64

func (r rows) RowsAffected() (int64, error) { return int64(r), nil }

// LastInsertId is for other databases.
func (rows) LastInsertId() (int64, error) { return 0, nil }

package pgxlisten_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/contrib/pgxlisten"
	"github.com/redlatch/redlatch/core/sqlstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ sqlstore.Listener = (*pgxlisten.Listener)(nil)
	_ sqlstore.Execer   = pgxlisten.Tx{}
)

// server speaks as much of the protocol as a subscription needs. What it does after LISTEN
// is up to the test. Real servers are in test/sqlstore.
func server(t *testing.T, then func(b *pgproto3.Backend)) *pgx.ConnConfig {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := pgproto3.NewBackend(conn, conn)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			t.Error(err)
			return
		}
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
		query, err := b.Receive()
		if q, ok := query.(*pgproto3.Query); err != nil || !ok || q.String != `LISTEN "channel"` {
			t.Errorf("got %+v, %v; want LISTEN", query, err)
			return
		}
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("LISTEN")})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
		then(b)
	}()
	config, err := pgx.ParseConfig("postgres://" + listener.Addr().String() + "/db?sslmode=disable&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestListenReportsTheEndOfTheConnection(t *testing.T) {
	config := server(t, func(b *pgproto3.Backend) {
		b.Send(&pgproto3.NotificationResponse{Channel: "channel", Payload: "hello"})
		_ = b.Flush() // and hangs up
	})
	var heard []string
	err := pgxlisten.New(config).Listen(t.Context(), "channel", func() { heard = append(heard, "ready") }, func(p string) { heard = append(heard, p) })
	if err == nil || len(heard) != 2 || heard[0] != "ready" || heard[1] != "hello" {
		t.Errorf("heard %q, then %v; want ready, hello, and an error", heard, err)
	}
}

func TestListenEndsWithItsContext(t *testing.T) {
	config := server(t, func(b *pgproto3.Backend) { _, _ = b.Receive() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := pgxlisten.New(config).Listen(ctx, "channel", cancel, func(string) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
}

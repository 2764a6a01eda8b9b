package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/seckill/internal/rpc"
	pb "github.com/redlatch/redlatch/examples/seckill/internal/seckillpb"
	"github.com/redlatch/redlatch/examples/seckill/internal/store"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

// shop is one instance under test.
type shop struct {
	pb.SeckillServiceClient
	connection *grpc.ClientConn
	server     *rpc.Server
	locker     *lock.Locker
	log        *journal
	ready      *readiness
}

// readiness is that of the service, as the test sets it.
type readiness struct {
	down    atomic.Pointer[error]
	drained chan struct{}
	looked  atomic.Pointer[func()] // behind a look that has found it ready
}

func (r *readiness) Drained() <-chan struct{} { return r.drained }

func (r *readiness) Ready(context.Context) error {
	select {
	case <-r.drained:
		return errors.New("drained")
	default:
	}
	if err := r.down.Load(); err != nil {
		return *err
	}
	if looked := r.looked.Load(); looked != nil {
		(*looked)()
	}
	return nil
}

// journal is what operators see.
type journal struct {
	mu       sync.Mutex
	text     strings.Builder
	outcomes []string
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) ordered(outcome string, _ time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcomes = append(j.outcomes, outcome)
}

func (j *journal) read() (text string, outcomes []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String(), slices.Clone(j.outcomes)
}

func openShop(t *testing.T, locks lock.Store, orders voucher.Store) *shop {
	t.Helper()
	return openShopWithin(t, locks, orders, time.Minute)
}

// openShopWithin opens a shop whose calls may take as long as limit.
func openShopWithin(t *testing.T, locks lock.Store, orders voucher.Store, limit time.Duration) *shop {
	t.Helper()
	s := &shop{locker: lock.New(locks), log: &journal{}, ready: &readiness{drained: make(chan struct{})}}
	t.Cleanup(func() { _ = s.locker.Close(context.Background()) })
	g, err := guard.New(s.locker)
	if err != nil {
		t.Fatal(err)
	}
	sale, err := voucher.NewSaleLock(voucher.NewService(orders, limit), g)
	if err != nil {
		t.Fatal(err)
	}
	s.server, err = rpc.NewServer(sale, g, s.ready, slog.New(slog.NewTextHandler(s.log, nil)), s.log.ordered)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(listener) }()
	t.Cleanup(func() {
		s.server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	s.connection, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.connection.Close() })
	s.SeckillServiceClient = pb.NewSeckillServiceClient(s.connection)
	return s
}

func sqliteStore(t *testing.T) *store.Store {
	t.Helper()
	address, err := store.ParseAddress("sqlite:" + filepath.Join(t.TempDir(), "sale.db") + "?synchronous=normal")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// onSale puts a voucher on sale, from and to so many hours from now.
func (s *shop) onSale(t *testing.T, stock int64, begin, end time.Duration) string {
	t.Helper()
	created, err := s.CreateVoucher(t.Context(), &pb.CreateVoucherRequest{
		Title: "Half price", Stock: stock,
		BeginAt: timestamppb.New(time.Now().Add(begin * time.Hour)), EndAt: timestamppb.New(time.Now().Add(end * time.Hour)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return created.GetVoucher().GetId()
}

func (s *shop) order(t *testing.T, voucherID, user string) (*pb.Order, error) {
	t.Helper()
	r, err := s.PlaceOrder(t.Context(), &pb.PlaceOrderRequest{VoucherId: voucherID, UserId: user})
	return r.GetOrder(), err
}

// wantStatus checks the code of an error and the reason in its ErrorInfo.
func wantStatus(t *testing.T, title string, err error, code codes.Code, reason string) {
	t.Helper()
	s := status.Convert(err)
	got := ""
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			got = info.GetReason()
		}
	}
	if s.Code() != code || got != reason {
		t.Errorf("%s: %v %q: %v, want %v %q", title, s.Code(), got, err, code, reason)
	}
}

func TestAVoucherIsCreatedSoldListedReportedAndGivenBack(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 2, -1, 1)
	first, err := s.order(t, id, "alice")
	if err != nil || first.GetVoucherId() != id || first.GetUserId() != "alice" || first.GetFence() == 0 {
		t.Fatalf("%v, %v", first, err)
	}
	second, err := s.order(t, id, "bob")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.GetVoucher(t.Context(), &pb.GetVoucherRequest{VoucherId: id})
	if err != nil || v.GetVoucher().GetRemaining() != 0 || v.GetVoucher().GetTitle() != "Half price" {
		t.Errorf("%v, %v", v, err)
	}
	got, err := s.GetOrder(t.Context(), &pb.GetOrderRequest{OrderId: first.GetOrderId()})
	if err != nil || got.GetOrder().GetUserId() != "alice" {
		t.Errorf("%v, %v", got, err)
	}
	list, err := s.ListOrders(t.Context(), &pb.ListOrdersRequest{VoucherId: id})
	if err != nil || len(list.GetOrders()) != 2 || list.GetOrders()[0].GetOrderId() != second.GetOrderId() {
		t.Errorf("%v, %v: want both, the newest first", list, err)
	}
	if list, err := s.ListOrders(t.Context(), &pb.ListOrdersRequest{VoucherId: id, Limit: 1}); err != nil || len(list.GetOrders()) != 1 {
		t.Errorf("%v, %v: want one", list, err)
	}
	_, err = s.CancelOrder(t.Context(), &pb.CancelOrderRequest{OrderId: first.GetOrderId(), UserId: "bob"})
	wantStatus(t, "another user's order", err, codes.NotFound, "ORDER_NOT_FOUND")
	if _, err := s.CancelOrder(t.Context(), &pb.CancelOrderRequest{OrderId: first.GetOrderId(), UserId: "alice"}); err != nil {
		t.Error(err)
	}
	r, err := s.GetReport(t.Context(), &pb.GetReportRequest{VoucherId: id})
	if err != nil || r.GetStock() != 2 || r.GetSold() != 1 || r.GetOrders() != 1 || r.GetDistinctUsers() != 1 || r.GetOversold() || r.GetDuplicateOrders() != 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestEveryRefusalHasTheCodeOfHTTP(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	id := s.onSale(t, 1, -1, 1)
	if _, err := s.order(t, id, "first"); err != nil {
		t.Fatal(err)
	}
	held, err := s.locker.TryAcquire(t.Context(), "lock:order:held")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Release(t.Context()) }()
	nobody := strings.Repeat("0", 8) + "-0000-7000-8000-000000000000"
	for title, tt := range map[string]struct {
		voucher, user string
		code          codes.Code
		reason        string
	}{
		"no user":         {id, "", codes.Unauthenticated, "UNAUTHENTICATED"},
		"no sane user":    {id, "a b", codes.Unauthenticated, "UNAUTHENTICATED"},
		"no such voucher": {nobody, "u", codes.NotFound, "VOUCHER_NOT_FOUND"},
		"not an id":       {"'; DROP TABLE orders", "u", codes.NotFound, "VOUCHER_NOT_FOUND"},
		"too early":       {s.onSale(t, 1, 1, 2), "u", codes.FailedPrecondition, "NOT_STARTED"},
		"too late":        {s.onSale(t, 1, -2, -1), "u", codes.FailedPrecondition, "ENDED"},
		"again":           {id, "first", codes.AlreadyExists, "ALREADY_ORDERED"},
		"none left":       {id, "u", codes.FailedPrecondition, "SOLD_OUT"},
		"lock is held":    {id, "held", codes.Aborted, "LOCK_CONTENDED"},
	} {
		_, err := s.order(t, tt.voucher, tt.user)
		wantStatus(t, title, err, tt.code, tt.reason)
	}
	_, err = s.CancelOrder(t.Context(), &pb.CancelOrderRequest{OrderId: nobody, UserId: "held"})
	wantStatus(t, "cancel while the lock is held", err, codes.Aborted, "LOCK_CONTENDED")
	_, err = s.GetVoucher(t.Context(), &pb.GetVoucherRequest{VoucherId: nobody})
	wantStatus(t, "show no such voucher", err, codes.NotFound, "VOUCHER_NOT_FOUND")
	_, err = s.GetReport(t.Context(), &pb.GetReportRequest{VoucherId: nobody})
	wantStatus(t, "report of no such voucher", err, codes.NotFound, "VOUCHER_NOT_FOUND")
	_, err = s.ListOrders(t.Context(), &pb.ListOrdersRequest{VoucherId: nobody})
	wantStatus(t, "orders of no such voucher", err, codes.NotFound, "VOUCHER_NOT_FOUND")
	_, err = s.GetOrder(t.Context(), &pb.GetOrderRequest{OrderId: nobody})
	wantStatus(t, "no such order", err, codes.NotFound, "ORDER_NOT_FOUND")
	_, err = s.ListOrders(t.Context(), &pb.ListOrdersRequest{VoucherId: id, Limit: 1001})
	wantStatus(t, "limit", err, codes.InvalidArgument, "BAD_REQUEST")

	_, err = s.CreateVoucher(t.Context(), &pb.CreateVoucherRequest{Stock: -1, BeginAt: timestamppb.Now()})
	wantStatus(t, "no voucher", err, codes.InvalidArgument, "BAD_REQUEST")
	var fields []string
	for _, detail := range status.Convert(err).Details() {
		if faults, ok := detail.(*errdetails.BadRequest); ok {
			for _, f := range faults.GetFieldViolations() {
				fields = append(fields, f.GetField())
			}
		}
	}
	if got := strings.Join(fields, " "); got != "title stock end_at" {
		t.Errorf("fields %q, want all three", got)
	}
	_, outcomes := s.log.read()
	if !slices.Contains(outcomes, "placed") || !slices.Contains(outcomes, "LOCK_CONTENDED") || slices.Contains(outcomes, "held") {
		t.Errorf("outcomes %q", outcomes)
	}
}

// scripted is a voucher store whose PlaceOrder is the test's.
type scripted struct {
	voucher.Store
	place func(context.Context, voucher.Order) error
}

func (s scripted) PlaceOrder(ctx context.Context, o voucher.Order) error { return s.place(ctx, o) }

func TestClientsAreNotToldWhatOperatorsAre(t *testing.T) {
	secret := errors.New("dial tcp 10.0.0.7:3306: secret detail")
	var place func(context.Context, voucher.Order) error
	s := openShop(t, memstore.New(), scripted{sqliteStore(t), func(ctx context.Context, o voucher.Order) error { return place(ctx, o) }})
	id := s.onSale(t, 5, -1, 1)
	for title, tt := range map[string]struct {
		place  func(context.Context, voucher.Order) error
		code   codes.Code
		reason string
	}{
		"database is gone": {
			func(context.Context, voucher.Order) error { return errors.Join(voucher.ErrStoreUnavailable, secret) },
			codes.Unavailable, "STORE_UNAVAILABLE",
		},
		"no known error": {func(context.Context, voucher.Order) error { return secret }, codes.Internal, "INTERNAL"},
		"panic":          {func(context.Context, voucher.Order) error { panic(secret) }, codes.Internal, "INTERNAL"},
		"lock is lost": {
			func(ctx context.Context, _ voucher.Order) error {
				if _, err := s.locker.ForceRelease(ctx, "lock:order:u"); err != nil {
					return err
				}
				lease, _ := lock.FromContext(ctx)
				if err := lease.Extend(context.WithoutCancel(ctx), time.Minute); !errors.Is(err, lock.ErrLost) {
					t.Errorf("extend: %v", err)
				}
				return ctx.Err()
			},
			codes.Internal, "LOCK_LOST",
		},
		"a newer holder": {
			func(context.Context, voucher.Order) error { return voucher.ErrStaleFence },
			codes.Aborted, "LOCK_CONTENDED",
		},
	} {
		place = tt.place
		_, err := s.order(t, id, "u")
		wantStatus(t, title, err, tt.code, tt.reason)
		if strings.Contains(status.Convert(err).Proto().String(), "secret") {
			t.Errorf("%s: the client sees %v", title, err)
		}
		if state, err := s.locker.Inspect(t.Context(), "lock:order:u"); err != nil || state.Held {
			t.Errorf("%s: the lock is held: %v, %v", title, state, err)
		}
	}
	if text, _ := s.log.read(); strings.Count(text, "secret detail") < 3 {
		t.Errorf("operators see %q", text)
	}
}

// lossy is a database whose answer to the first voucher is lost.
type lossy struct {
	*store.Store
	lost atomic.Bool
}

func (l *lossy) CreateVoucher(ctx context.Context, v voucher.Voucher) error {
	if err := l.Store.CreateVoucher(ctx, v); err != nil || l.lost.Swap(true) {
		return err
	}
	return voucher.ErrStoreUnavailable
}

func TestAClientThatRetriesPutsOneVoucherOnSale(t *testing.T) {
	db := &lossy{Store: sqliteStore(t)}
	s := openShop(t, memstore.New(), db)
	retrying, err := grpc.NewClient(s.connection.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"methodConfig": [{
			"name": [{"service": "seckill.v1.SeckillService"}],
			"retryPolicy": {
				"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
				"retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]
			}
		}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer retrying.Close()
	_, err = pb.NewSeckillServiceClient(retrying).CreateVoucher(t.Context(), &pb.CreateVoucherRequest{
		Title: "Half price", Stock: 1, BeginAt: timestamppb.Now(), EndAt: timestamppb.New(time.Now().Add(time.Hour)),
	})
	wantStatus(t, "create", err, codes.Internal, "INTERNAL")
	if list, err := db.Vouchers(t.Context(), 10); err != nil || len(list) != 1 {
		t.Errorf("one call put %d vouchers on sale, %v", len(list), err)
	}
	if text, _ := s.log.read(); !strings.Contains(text, "may be on sale") {
		t.Errorf("operators see %q", text)
	}
}

// hanging is a database that takes a call and never answers it.
type hanging struct{ voucher.Store }

func (hanging) Voucher(ctx context.Context, _ string) (voucher.Voucher, error) {
	<-ctx.Done()
	return voucher.Voucher{}, fmt.Errorf("read voucher: %w", context.Cause(ctx))
}

func TestADatabaseThatHangsHasACodeAndALineInTheLog(t *testing.T) {
	s := openShopWithin(t, memstore.New(), hanging{}, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	_, err := s.PlaceOrder(ctx, &pb.PlaceOrderRequest{VoucherId: "v", UserId: "u"})
	wantStatus(t, "order", err, codes.Unavailable, "STORE_UNAVAILABLE")
	log, outcomes := s.log.read()
	if !strings.Contains(log, "call failed") || !slices.Equal(outcomes, []string{"STORE_UNAVAILABLE"}) {
		t.Errorf("log %q, counted as %q", log, outcomes)
	}
}

func TestHealthIsTheReadinessOfTheService(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	client := healthpb.NewHealthClient(s.connection)
	want := func(when string, status healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "seckill.v1.SeckillService"} {
			r, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
			if err != nil || r.GetStatus() != status {
				t.Errorf("%s: %q: %v, %v, want %v", when, service, r, err, status)
			}
			list, err := client.List(t.Context(), &healthpb.HealthListRequest{})
			if err != nil || list.GetStatuses()[service].GetStatus() != status {
				t.Errorf("%s: list: %v, %v, want %v", when, list, err, status)
			}
		}
	}
	want("at the start", healthpb.HealthCheckResponse_SERVING)
	down := errors.New("database: secret detail")
	s.ready.down.Store(&down)
	want("without a database", healthpb.HealthCheckResponse_NOT_SERVING)
	if text, _ := s.log.read(); !strings.Contains(text, "secret detail") {
		t.Errorf("operators see %q", text)
	}
	s.ready.down.Store(nil)
	want("with it again", healthpb.HealthCheckResponse_SERVING)
	close(s.ready.drained)
	want("while draining", healthpb.HealthCheckResponse_NOT_SERVING)
	_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "nobody"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("unknown service: %v", err)
	}
}

func TestAWatchFollowsTheReadinessAndEndsWithTheDrain(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	client := healthpb.NewHealthClient(s.connection)
	stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	want := func(stream healthpb.Health_WatchClient, status healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := stream.Recv(); err != nil || r.GetStatus() != status {
			t.Fatalf("got %v, %v, want %v", r, err, status)
		}
	}
	want(unknown, healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
	want(stream, healthpb.HealthCheckResponse_SERVING)
	down := errors.New("no database")
	s.ready.down.Store(&down)
	want(stream, healthpb.HealthCheckResponse_NOT_SERVING)
	s.ready.down.Store(nil)
	want(stream, healthpb.HealthCheckResponse_SERVING)
	close(s.ready.drained)
	want(stream, healthpb.HealthCheckResponse_NOT_SERVING)
	for _, stream := range []healthpb.Health_WatchClient{stream, unknown} {
		if r, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("after the drain: %v, %v", r, err)
		}
	}
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// The drain begins behind the look that finds the service ready.
func TestAWatchSaysThatTheServiceDrainsBeforeItEnds(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	drain := sync.OnceFunc(func() { close(s.ready.drained) })
	s.ready.looked.Store(&drain)
	stream, err := healthpb.NewHealthClient(s.connection).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		if r, err := stream.Recv(); err != nil || r.GetStatus() != want {
			t.Fatalf("got %v, %v, want %v", r, err, want)
		}
	}
	if r, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after the drain: %v, %v", r, err)
	}
}

func TestShutdownWaitsForCallsAndThenCutsThem(t *testing.T) {
	var began, ended sync.WaitGroup
	began.Add(1)
	ended.Add(1)
	s := openShop(t, memstore.New(), scripted{sqliteStore(t), func(ctx context.Context, _ voucher.Order) error {
		defer ended.Done()
		began.Done()
		<-ctx.Done()
		return ctx.Err()
	}})
	id := s.onSale(t, 5, -1, 1)
	go func() { _, _ = s.PlaceOrder(context.Background(), &pb.PlaceOrderRequest{VoucherId: id, UserId: "u"}) }()
	began.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	ended.Wait()
}

package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
	"github.com/redlatch/redlatch/examples/seckill/internal/web"
)

// hanging is a database that answers nothing.
type hanging struct{ voucher.Store }

func (hanging) Voucher(ctx context.Context, _ string) (voucher.Voucher, error) {
	<-ctx.Done()
	return voucher.Voucher{}, ctx.Err()
}

func TestARequestHasAnAnswerWhateverHangs(t *testing.T) {
	shop := openShop(t, memstore.New(), hanging{})
	recorder := httptest.NewRecorder()
	web.Bound(shop.handler, 10*time.Millisecond).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/api/vouchers/7", nil))
	if recorder.Code != http.StatusServiceUnavailable || !strings.Contains(recorder.Body.String(), "STORE_UNAVAILABLE") {
		t.Errorf("got %d %s", recorder.Code, recorder.Body)
	}
	if got := recorder.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("browsers may guess: %q", got)
	}
}

package recipes

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/httplock"
)

// Payments answers POST requests with an Idempotency-Key: each key is charged once,
// and every request with it gets the same receipt.
type Payments struct {
	DB *sql.DB
	// Charge is the slow part. key lets the provider recognize a repetition.
	Charge func(ctx context.Context, key string, amount int64) (receipt string, err error)
}

// Handler makes requests with the same key wait for each other.
func (p *Payments) Handler(g *guard.Guard) http.Handler {
	return httplock.New(g, "lock:payment:<header.Idempotency-Key> wait=5s")(http.HandlerFunc(p.post))
}

func (p *Payments) post(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a payment is a POST request", http.StatusMethodNotAllowed)
		return
	}
	amount, err := strconv.ParseInt(r.PostFormValue("amount"), 10, 64)
	if err != nil || amount <= 0 {
		http.Error(w, "amount must be a positive number", http.StatusBadRequest)
		return
	}
	switch receipt, err := p.pay(r.Context(), r.Header.Get("Idempotency-Key"), amount); {
	case errors.Is(err, errOtherPayment):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		http.Error(w, "the payment may not have been made; repeat it with the same key", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, receipt)
	}
}

func (p *Payments) pay(ctx context.Context, key string, amount int64) (receipt string, err error) {
	receipt, err = p.paid(ctx, key, amount)
	if !errors.Is(err, sql.ErrNoRows) {
		return receipt, err // paid before, by any process
	}
	receipt, err = p.Charge(ctx, key, amount)
	if err != nil {
		return "", err
	}
	// A charge is recorded even if the client has gone or the lock is lost meanwhile. The
	// primary key keeps the first receipt.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	const insert = `INSERT INTO payments (request_key, amount, receipt) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	if _, err := p.DB.ExecContext(ctx, insert, key, amount, receipt); err != nil {
		return "", err
	}
	return p.paid(ctx, key, amount)
}

var errOtherPayment = errors.New("this Idempotency-Key was used for another payment")

func (p *Payments) paid(ctx context.Context, key string, amount int64) (receipt string, err error) {
	var before int64
	err = p.DB.QueryRowContext(ctx, `SELECT amount, receipt FROM payments WHERE request_key = ?`, key).Scan(&before, &receipt)
	if err == nil && before != amount {
		err = errOtherPayment
	}
	return receipt, err
}

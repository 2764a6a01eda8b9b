package httpguard_test

import (
	"testing"

	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func TestOperationsOfHTTP(t *testing.T) {
	for operation, want := range map[string]bool{
		"POST /vouchers/:id/orders":       true,
		"GET /vouchers/{id}":              true,
		"GET shop.example/vouchers/{id}":  true,
		httpguard.Operation("PUT", "/x"):  true,
		"/shop.v1.Stock/Refill":           false,
		"OrderService.Create":             false,
		"post /lower":                     false,
		" /x":                             false,
		"POST":                            false,
		"POST nothing":                    false,
		"shop.OrderService/Create retry ": false,
	} {
		if _, _, ok := httpguard.SplitOperation(operation); ok != want {
			t.Errorf("%q: got %v", operation, ok)
		}
	}
}

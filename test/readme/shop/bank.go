package shop

import "context"

// Bank moves money.
type Bank interface {
	//redlatch:lock lock:account:<from> wait=1s
	//redlatch:lock lock:account:<to>
	Move(ctx context.Context, from, to string, cents int64) error
}

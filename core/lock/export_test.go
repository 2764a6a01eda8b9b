package lock

import "context"

// Turn is for tests.
type Turn struct{ turn }

// Take is for tests.
func (t *Turn) Take(ctx context.Context) error { return t.take(ctx) }

// Give is for tests.
func (t *Turn) Give() { t.give() }

package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"sync/atomic"
)

// sweepEvery is after how many new rows a call looks for old ones.
const sweepEvery = 64

// inserts counts the rows that are new.
type inserts struct{ n atomic.Uint64 }

// one counts a new row. Every 64th looks at 192 rows from a random place on, and deletes
// the ones that nobody has used for a minute. So the table keeps no more than a few times
// the keys that are in use, without a job and without an index. The call that sweeps is
// not the worse for a failure.
func (i *inserts) one(ctx context.Context, k *keys) {
	if i.n.Add(1)%sweepEvery == 0 {
		_ = k.sweep(ctx)
	}
}

// sweep raises the floor to the fences of the rows before it deletes them, so that the
// fences of their keys go on growing whatever the clock does.
func (k *keys) sweep(ctx context.Context) error {
	var from [16]byte
	_, _ = rand.Read(from[:]) // never fails
	var old []seen
	var floor int64
	err := k.query(ctx, &k.sql.old, []any{from[:]}, func(rows *sql.Rows) error {
		var row []byte
		var fence int64
		if err := rows.Scan(&row, &fence); err != nil {
			return err
		}
		old, floor = append(old, newSeen(row)), max(floor, fence)
		return nil
	})
	if err != nil || len(old) == 0 {
		return err
	}
	if _, err := k.affected(ctx, &k.sql.raise, []any{floor}); err != nil {
		return err
	}
	text, err := listed(old)
	if err != nil {
		return err
	}
	_, err = k.affected(ctx, &k.sql.sweep, []any{text, floor})
	return err
}

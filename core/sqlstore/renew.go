package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// maxBatch is how many keys one statement is for.
const maxBatch = 1000

// renewal is a claim as a statement reads it.
type renewal struct {
	ID    string    `json:"id"`
	Owner string    `json:"owner"`
	Mode  lock.Mode `json:"mode"`
	Twin  lock.Mode `json:"twin"`
	TTL   int64     `json:"ttl"`
}

// Renew implements [lock.Store]. Holds in the columns of their rows are renewed by one
// statement for 1,000 of them, and the others key by key.
func (k *keys) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	plain, others := make([]int, 0, len(claims)), make(map[string][]int)
	for i := range claims {
		c := &claims[i]
		err := check(c)
		if err == nil {
			err = entry.Check(c)
		}
		switch {
		case err != nil:
			report(i, err)
		case k.parting.has(c.Owner):
			report(i, errParting)
		case c.Mode == lock.Semaphore:
			others[c.Key] = append(others[c.Key], i)
		default:
			plain = append(plain, i)
		}
	}
	for batch := range slices.Chunk(plain, maxBatch) {
		renewed, err := k.renewPlain(ctx, claims, batch)
		for _, i := range batch {
			switch {
			case err != nil:
				report(i, err)
			case renewed[i]:
				report(i, nil)
			default: // in a document, or gone
				others[claims[i].Key] = append(others[claims[i].Key], i)
			}
		}
	}
	for key, those := range others {
		k.renewKey(ctx, key, claims, those, report)
	}
}

// renewPlain renews holds in the columns, and returns which of the claims it found.
func (k *keys) renewPlain(ctx context.Context, claims []lock.Claim, those []int) (renewed map[int]bool, err error) {
	type owned struct{ id, owner string }
	wanted, index := make([]renewal, 0, len(those)), make(map[owned]int, len(those))
	for _, i := range those {
		c := &claims[i]
		row := id(c.Key)
		wanted = append(wanted, renewal{hex.EncodeToString(row), c.Owner, c.Mode, twin(c.Mode), micros(c.TTL)})
		index[owned{string(row), c.Owner}] = i
	}
	slices.SortFunc(wanted, func(a, b renewal) int { return strings.Compare(a.ID, b.ID) }) // or batches that overlap deadlock
	text, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	renewed = make(map[int]bool, len(those))
	if k.dialect == MySQL {
		return renewed, k.renewByCount(ctx, claims, those, string(text), renewed)
	}
	err = k.query(ctx, &k.sql.renew, []any{string(text)}, func(rows *sql.Rows) error {
		var found []byte
		var owner string
		if err := rows.Scan(&found, &owner); err != nil {
			return err
		}
		if i, ok := index[owned{string(found), owner}]; ok {
			renewed[i] = true
		}
		return nil
	})
	return renewed, err
}

// renewByCount is renewPlain where the statement says only how many it renewed. If some
// are missing, the rows show which ones last for long enough.
func (k *keys) renewByCount(ctx context.Context, claims []lock.Claim, those []int, text string, renewed map[int]bool) error {
	began := time.Now()
	n, err := k.affected(ctx, &k.sql.renew, []any{text})
	if err != nil {
		return err
	}
	if n == int64(len(those)) {
		for _, i := range those {
			renewed[i] = true
		}
		return nil
	}
	rows := make([]seen, len(those))
	for at, i := range those {
		rows[at] = newSeen(id(claims[i].Key))
	}
	err = k.changed(ctx, rows, func(at int, r *row) {
		c := &claims[those[at]]
		lasts := r.expires-r.now >= micros(c.TTL-time.Since(began))
		if r.more == nil && r.owner == c.Owner && r.mode < kept && (r.mode == int(c.Mode) || r.mode == int(twin(c.Mode))) && lasts {
			renewed[those[at]] = true
		}
	})
	if err != nil {
		return doubtful(err)
	}
	return nil
}

// doubtful is the error of a call that followed one which may have renewed: what it says
// of itself isn't the whole truth.
func doubtful(err error) error { return &lock.StoreError{Class: lock.ClassOf(err), Err: err} }

// renewKey renews the holds of one key.
func (k *keys) renewKey(ctx context.Context, key string, claims []lock.Claim, those []int, report func(i int, err error)) {
	results := make([]error, len(those))
	err := k.change(ctx, key, nil, func(e *entry.Entry, r *row) (how writing, err error) {
		for n, i := range those {
			results[n] = e.Renew(&claims[i], at(r.now))
		}
		return how, nil
	})
	if err != nil && k.dialect == MySQL {
		err = doubtful(err)
	}
	for n, i := range those {
		if err != nil {
			results[n] = err
		}
		report(i, results[n])
	}
}

package sqlstore

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/internal/entry"
	"github.com/redlatch/redlatch/core/lock"
)

// decide is what a call does to what a key has.
type decide func(e *entry.Entry, r *row) (writing, error)

// writing is how a decision is written.
type writing struct {
	relaxed  bool   // a crash of the database may forget it
	announce string // notification of a forced release
}

// change reads the row of a key, lets do decide, and writes the row unless another has
// written it since: then it begins again. A decision that changes nothing writes nothing.
// The row may have been read before. The calls of a process for one key wait for each
// other, or in a crowd most of them would begin again and again.
func (k *keys) change(ctx context.Context, key string, r *row, do decide) error {
	done, err := k.turns.wait(ctx, key)
	if err != nil {
		return err
	}
	defer done()
	for try := 1; ; try++ {
		if r == nil {
			if r, err = k.read(ctx, key); err != nil {
				return err
			}
		}
		done, err := k.decide(ctx, key, r, do)
		if done {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
		r = nil
	}
}

// decide is one try of change. done is false if the row has changed since it was read.
func (k *keys) decide(ctx context.Context, key string, r *row, do decide) (done bool, err error) {
	e, err := r.entry()
	if err != nil {
		return true, err
	}
	e.Expire(at(r.now))
	holds, queue := slices.Clone(e.Holds), slices.Clone(e.Queue)
	how, decision := do(e, r)
	if slices.Equal(holds, e.Holds) && slices.Equal(queue, e.Queue) {
		return true, decision
	}
	next, err := r.with(e)
	if err != nil {
		return true, err
	}
	done, err = k.write(ctx, key, r, &next, e.Wake, how)
	if err != nil {
		return true, err
	}
	if done {
		k.hub.deliver(key, e.Wake)
	}
	return done, decision
}

// read returns the row of a key.
func (k *keys) read(ctx context.Context, key string) (*row, error) {
	r := &row{asked: time.Now()}
	found := false
	err := k.query(ctx, &k.sql.read, []any{id(key)}, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&r.now, &r.floor, &r.version, &r.expires, &r.fence, &r.mode, &r.owner, &r.more)
	})
	if err == nil && !found {
		err = &lock.StoreError{Outcome: lock.OutcomeRefused, Class: "no schema", Err: errNoMeta}
	}
	return r, err
}

// write writes next, unless the row is no longer r.
func (k *keys) write(ctx context.Context, key string, r, next *row, wake entry.Wake, how writing) (done bool, err error) {
	statement := &k.sql.update
	if r.version == 0 {
		statement = &k.sql.insert
		k.inserts.one(ctx, k)
	}
	n, err := k.affected(ctx, statement, k.updateOf(key, r, next, wake, how))
	return n > 0, err
}

// updateOf are the arguments of an update, or of an insert where there is no row.
func (k *keys) updateOf(key string, r, next *row, wake entry.Wake, how writing) []any {
	args := []any{id(key), r.version, next.expires, next.fence, int64(next.mode), next.owner, next.more, r.now + decisionLasts}
	switch {
	case r.version == 0:
		args[1] = r.now // versions never come back, also when the row was deleted
		args = append(args, []byte(key))
	case k.dialect == PostgreSQL:
		args = append(args, payload(key, wake), how.relaxed, how.announce)
	}
	return args
}

// pause waits before the next try, for longer each time.
func pause(ctx context.Context, tries int) error {
	most := min(time.Duration(tries)*time.Millisecond, 20*time.Millisecond)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return notSent(ctx)
	}
}

// notSent is the error of a call that has done nothing when its context ended.
func notSent(ctx context.Context) error {
	return &lock.StoreError{Outcome: lock.OutcomeNotExecuted, Err: context.Cause(ctx)}
}

// turns are had by one call of a key at a time.
type turns struct {
	mu   sync.Mutex
	keys map[string]*turn
}

type turn struct {
	taken chan struct{}
	users int
}

// wait returns when it is the call's turn, or with the error of ctx. done ends the turn.
func (all *turns) wait(ctx context.Context, key string) (done func(), err error) {
	t := all.join(key)
	select {
	case t.taken <- struct{}{}:
		return func() {
			<-t.taken
			all.leave(key, t)
		}, nil
	case <-ctx.Done():
		all.leave(key, t)
		return nil, notSent(ctx)
	}
}

func (all *turns) join(key string) *turn {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.keys == nil {
		all.keys = make(map[string]*turn)
	}
	t := all.keys[key]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		all.keys[key] = t
	}
	t.users++
	return t
}

func (all *turns) leave(key string, t *turn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(all.keys, key)
	}
}

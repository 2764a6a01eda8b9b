package shared_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/shared"
)

const every = 100 * time.Millisecond

// counter counts its reads, each of which takes a while.
type counter struct {
	reads atomic.Int64
	takes time.Duration
}

func (c *counter) read(ctx context.Context, _ string) (int64, error) {
	n := c.reads.Add(1)
	select {
	case <-time.After(c.takes):
		return n, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func TestCallersThatComeTogetherShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: 10 * time.Millisecond}
		looks := shared.NewLooks(every, c.read)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				for range 10 {
					called := time.Now()
					_, at, err := looks.Get(t.Context(), "sale", 0)
					if err != nil || at.Before(called) {
						t.Errorf("a read that began %v before the call, %v", called.Sub(at), err)
					}
				}
			})
		}
		wg.Wait()
		if n := c.reads.Load(); n != 10 {
			t.Errorf("%d reads, want one for each round", n)
		}
	})
}

func TestReadsOfAKeyAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: time.Millisecond}
		looks := shared.NewLooks(every, c.read)
		began := time.Now()
		for range 5 {
			if _, _, err := looks.Get(t.Context(), "sale", 0); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 4*every+c.takes {
			t.Errorf("five reads of one key took %v, want %v", took, 4*every+c.takes)
		}
		began = time.Now()
		if _, _, err := looks.Get(t.Context(), "another", 0); err != nil || time.Since(began) != c.takes {
			t.Errorf("another key took %v, %v", time.Since(began), err)
		}
	})
}

func TestAnOldReadIsGoodEnoughForThoseThatSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(counter)
		looks := shared.NewLooks(every, c.read)
		for want, after := range []time.Duration{0, time.Second, 1} { // the read is then so old
			time.Sleep(after)
			n, _, err := looks.Get(t.Context(), "sale", time.Second)
			if wanted := int64(max(1, want)); n != wanted || err != nil {
				t.Errorf("read %d, %v, want %d", n, err, wanted)
			}
		}
	})
}

func TestAReadOutlivesWhoLeavesUnlessNobodyElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{takes: time.Minute}
		looks := shared.NewLooks(every, c.read)
		leaving, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := looks.Get(leaving, "sale", 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who leaves: %v", err)
			}
		})
		wg.Go(func() {
			if n, _, err := looks.Get(t.Context(), "sale", 0); n != 1 || err != nil {
				t.Errorf("who stays: read %d, %v", n, err)
			}
		})
		wg.Wait()
		began := time.Now()
		alone, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, _, err := looks.Get(alone, "sale", 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("alone: %v after %v", err, time.Since(began))
		}
		synctest.Wait() // the read has ended with its caller
		if n, _, err := looks.Get(t.Context(), "sale", 0); n != 3 || err != nil {
			t.Errorf("the next: read %d, %v, want a new one", n, err)
		}
	})
}

func TestAPanicIsAnErrorForEverybody(t *testing.T) {
	looks := shared.NewLooks(every, func(context.Context, string) (int, error) { panic("no") })
	if _, _, err := looks.Get(t.Context(), "sale", 0); err == nil {
		t.Error("no error")
	}
}

func TestKeysThatClientsMakeUpAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := shared.NewLooks(every, new(counter).read)
		for n := range 10_000 {
			if _, _, err := looks.Get(t.Context(), string(rune(n)), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(every / 50)
		}
		if n := looks.Kept(); n > 200 {
			t.Errorf("%d keys are kept", n)
		}
	})
}

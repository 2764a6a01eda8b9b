package fence_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
)

// claims is what every store answers, in this order.
var claims = []struct {
	name  string
	token fence.Token
	want  error
}{
	{"the first", fence.New(10, "a:1"), nil},
	{"the same again", fence.New(10, "a:1"), nil},
	{"an older one", fence.New(9, "z:1"), fence.ErrStale},
	{"an older one of the same owner", fence.New(9, "a:1"), fence.ErrStale},
	{"the same fence of another owner", fence.New(10, "b:1"), fence.ErrStale},
	{"a newer one", fence.New(11, "b:1"), nil},
	{"the first, late", fence.New(10, "a:1"), fence.ErrStale},
	{"the newest, once more", fence.New(11, "b:1"), nil},
	{"the largest there is", fence.New(fence.MaxFence, "c:1"), nil},
	{"none", fence.Token{}, fence.ErrMalformed},
	{"one that is too large", fence.New(fence.MaxFence+1, "d:1"), fence.ErrMalformed},
}

func TestMemoryLetsInTheNewestHolderOnly(t *testing.T) {
	store := fence.NewMemory(0)
	for _, tt := range claims {
		if err := store.Claim(t.Context(), "k", tt.token); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := store.Claim(t.Context(), "other", fence.New(1, "a:1")); err != nil {
		t.Errorf("another lock: %v", err)
	}
}

func TestTheZeroMemoryRemembersAsManyAsByDefault(t *testing.T) {
	var store fence.Memory
	for _, tt := range claims {
		if err := store.Claim(t.Context(), "k", tt.token); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// Whatever is forgotten, no token is let in behind a newer one.
func TestAFullMemoryForgetsTheOldestAndLetsNoneInLate(t *testing.T) {
	for limit := 1; limit <= 8; limit++ {
		store := fence.NewMemory(limit)
		newest := map[string]uint64{}
		random := rand.New(rand.NewPCG(1, uint64(limit)))
		let, refused := 0, 0
		for n := range uint64(5_000) {
			key := fmt.Sprint("k", random.IntN(3*limit))
			number := 1 + n - min(n, random.Uint64N(uint64(4*limit))) // some late
			switch err := store.Claim(t.Context(), key, fence.New(number, fmt.Sprint("o:", number))); {
			case err == nil:
				if number < newest[key] {
					t.Fatalf("limit %d: %s: %d is let in behind %d", limit, key, number, newest[key])
				}
				newest[key] = number
				let++
			case errors.Is(err, fence.ErrStale):
				refused++
			default:
				t.Fatal(err)
			}
		}
		if let < 500 || refused < 500 {
			t.Errorf("limit %d: %d let in and %d refused: the test shows nothing", limit, let, refused)
		}
	}
}

// It refuses only what it must: the smallest fences are forgotten first, so what it has
// forgotten is as small as can be.
func TestAFullMemoryForgetsTheSmallestFencesFirst(t *testing.T) {
	for run := range 300 {
		limit := 1 + run%20
		store := fence.NewMemory(limit)
		newest, floor := map[string]uint64{}, uint64(0)
		random := rand.New(rand.NewPCG(2, uint64(run)))
		for n := range uint64(100) {
			lockOf := random.IntN(3 * limit)
			key := fmt.Sprint("k", lockOf)
			number := 1 + n - min(n, random.Uint64N(uint64(4*limit))) // some late
			number = number*64 + uint64(lockOf)                       // no two locks have the same
			known, ok := newest[key]
			want := number >= known && ok || number > floor && !ok
			if err := store.Claim(t.Context(), key, fence.New(number, "o:1")); (err == nil) != want {
				t.Fatalf("limit %d: %s: %d behind %d, forgotten %d: %v", limit, key, number, known, floor, err)
			}
			if !want {
				continue
			}
			if !ok && len(newest) == limit {
				oldest := slices.MinFunc(slices.Collect(maps.Keys(newest)), func(a, b string) int { return cmp.Compare(newest[a], newest[b]) })
				floor = max(floor, newest[oldest])
				delete(newest, oldest)
			}
			newest[key] = number
		}
	}
}

func TestAFullMemoryGoesOnAndKnowsWhoWasLetIn(t *testing.T) {
	store := fence.NewMemory(2)
	for i, key := range []string{"a", "b", "c", "d"} {
		token := fence.New(uint64(100+i), "o:1")
		for range 2 {
			if err := store.Claim(t.Context(), key, token); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
	for key, number := range map[string]uint64{"a": 100, "e": 101} { // forgotten, and never known
		if err := store.Claim(t.Context(), key, fence.New(number, "o:1")); !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: %v, want ErrStale, as what was forgotten was newer", key, err)
		}
	}
}

// An older token than the one that is forgotten for it is let in, as nobody knows its
// lock. What it leaves when it is forgotten, too, is no smaller for that.
func TestForgettingAnOlderTokenLetsNobodyInLate(t *testing.T) {
	store := fence.NewMemory(1)
	for _, tt := range []struct {
		key    string
		number uint64
		want   error
	}{{"a", 100, nil}, {"b", 50, nil}, {"c", 200, nil}, {"a", 60, fence.ErrStale}, {"a", 100, fence.ErrStale}, {"a", 101, nil}} {
		if err := store.Claim(t.Context(), tt.key, fence.New(tt.number, "o:1")); !errors.Is(err, tt.want) {
			t.Errorf("%s %d: %v, want %v", tt.key, tt.number, err, tt.want)
		}
	}
}

func TestOfManyAtOnceTheNewestWins(t *testing.T) {
	const holders = 200
	store := fence.NewMemory(0)
	var wg sync.WaitGroup
	for n := range uint64(holders) {
		wg.Go(func() { _ = store.Claim(t.Context(), "k", fence.New(n+1, "o:1")) })
	}
	wg.Wait()
	for n := range uint64(holders) {
		err := store.Claim(t.Context(), "k", fence.New(n+1, "o:1"))
		if last := n+1 == holders; last != (err == nil) {
			t.Errorf("fence %d of %d: %v", n+1, holders, err)
		}
	}
}

package page_test

import (
	"path/filepath"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/page"
)

func mapped(t *testing.T, path string) *page.Page {
	t.Helper()
	p, unmap, err := page.Map(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unmap)
	return p
}

func TestTwoHoldersAreSeenByBothMappings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	here, there := mapped(t, path), mapped(t, path)

	here.Enter(1, 1)
	here.Leave()
	there.Enter(2, 2)
	if got := here.Counts(); got.Overlaps != 0 || got.Changes != 2 {
		t.Fatalf("one after the other: %+v", got)
	}
	here.Enter(1, 3) // while the other is inside
	if got := there.Counts(); got.Overlaps != 1 || got.Changes != 3 {
		t.Errorf("two at once: %+v", got)
	}
	if there.Owner() != 1 {
		t.Errorf("owner %d, want 1", there.Owner())
	}
}

func TestTheSameOwnerIsNoChange(t *testing.T) {
	p := mapped(t, filepath.Join(t.TempDir(), "page"))
	for range 3 {
		p.Enter(7, page.Now())
		p.Leave()
	}
	if got := p.Counts(); got.Changes != 1 || got.Overlaps != 0 {
		t.Errorf("%+v", got)
	}
}

func TestInversionsAreBeyondTheSlack(t *testing.T) {
	p := mapped(t, filepath.Join(t.TempDir(), "page"))
	for _, arrival := range []int64{1000, 1000 + int64(page.Slack), 1001, 999} {
		p.Enter(arrival, arrival)
		p.Leave()
	}
	if got := p.Counts().Inversions; got != 1 { // only 999 is more than the slack earlier
		t.Errorf("%d inversions, want 1", got)
	}
}

func TestTheClockRises(t *testing.T) {
	if first, second := page.Now(), page.Now(); first <= 0 || second < first {
		t.Errorf("%d, then %d", first, second)
	}
}

package quorum_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// silent is a node that says nothing of itself.
type silent struct{ lock.Store }

// Owners are enough to release a lock, and keys often hold user ids.
func TestALogOfTheStoreHasItsNodesAndNoHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quorumOver(t, memstore.New(), silent{memstore.New()}, memstore.New())
		c := claimBy("an owner")
		c.Key = "a key"
		must(t, acquireOf(q, c))
		var line strings.Builder
		slog.New(slog.NewTextHandler(&line, nil)).Info("ready", "store", q)
		for _, want := range []string{"store.kind=quorum", "store.nodes=3", "store.1.kind=memory", "store.2=quorum_test.silent", "store.3.kind=memory"} {
			if !strings.Contains(line.String(), want) {
				t.Errorf("%q lacks %q", line.String(), want)
			}
		}
		for _, secret := range []string{c.Key, c.Owner} {
			if strings.Contains(line.String(), secret) {
				t.Errorf("%q has %q", line.String(), secret)
			}
		}
		must(t, q.Release(t.Context(), c))
	})
}

package nemesis

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

// failover kills a master, waits for the next one, and brings the old one back
// as a replica.
func (n *Nemesis) failover(f *history.Fault, s Step) error {
	if n.Sentinel != nil {
		old := n.Sentinel.Current(n)
		f.Target = "master " + old.Addr()
		next := n.Sentinel.Failover(n)
		f.To = n.clock.Now()
		f.Note = "to " + next.Addr()
		old.Restart()
		return nil
	}
	key := n.key(s.Dice)
	old := n.Cluster.OwnerOf(n, key)
	f.Target = "master " + old.Addr()
	next := n.Cluster.Failover(n, key)
	f.To = n.clock.Now()
	f.Note = "to " + next.Addr()
	old.Restart()
	return nil
}

// moveSlot moves the slot of a key to another master.
func (n *Nemesis) moveSlot(f *history.Fault, key string) (bool, error) {
	from := n.Cluster.OwnerOf(n, key)
	for _, to := range n.Cluster.Masters {
		if to == from {
			continue
		}
		f.Target = fmt.Sprintf("slot of %s, from %s to %s", key, from.Addr(), to.Addr())
		moved := n.Cluster.MoveSlot(n, key, to, 50*time.Millisecond)
		return moved, nil
	}
	return false, nil
}

package redisstore

import (
	"sync"
	"time"
)

// stall is how long a call to a cluster may go without an answer before its
// node is suspected to hang, and to no longer be a master.
const stall = 500 * time.Millisecond

// vigil reloads the slots of a cluster every 500 ms while one call has no answer.
// A node that hangs sends no redirection, and the client's own timeout may be
// longer than the failover. ClusterStateReloadInterval of go-redis does nearly the
// same where other calls keep coming, as each of them looks at the age of what is
// known; but a process whose only calls are the ones that hang sends none, and the
// default is a minute. Where that option is a second, as docs/operations.md
// advises, this costs one timer for each call and rarely more.
type vigil struct {
	reload func()
	mu     sync.Mutex
	timer  *time.Timer // nil when it has ended
}

// vigil begins one, to be ended with the call. It is nil outside a cluster.
func (s *Store) vigil() *vigil {
	if s.cluster == nil {
		return nil
	}
	v := &vigil{reload: s.topology.reload}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.timer = time.AfterFunc(stall, v.look)
	return v
}

func (v *vigil) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timer == nil {
		return
	}
	v.reload()
	v.timer.Reset(stall)
}

func (v *vigil) end() {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.timer.Stop()
	v.timer = nil
}

package redisstore

import (
	"sync"
	"time"
)

// slowCall is how long a call to a cluster may go without an answer before its
// node is suspected to hang, and to no longer be a master.
const slowCall = 500 * time.Millisecond

// slowCallMonitor reloads the slots of a cluster every 500 ms while one call has
// no answer. A node that hangs sends no redirection, and the client's own timeout
// may be longer than the failover. ClusterStateReloadInterval of go-redis does nearly the
// same where other calls keep coming, as each of them looks at the age of what is
// known; but a process whose only calls are the ones that hang sends none, and the
// default is a minute. Where that option is a second, as docs/operations.md
// advises, this costs one timer for each call and rarely more.
type slowCallMonitor struct {
	reload func()
	mu     sync.Mutex
	timer  *time.Timer // nil when it has ended
}

// monitorSlowCall starts a monitor, to be ended with the call. It is nil outside a
// cluster.
func (s *Store) monitorSlowCall() *slowCallMonitor {
	if s.cluster == nil {
		return nil
	}
	m := &slowCallMonitor{reload: s.topology.reload}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer = time.AfterFunc(slowCall, m.look)
	return m
}

func (m *slowCallMonitor) look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer == nil {
		return
	}
	m.reload()
	m.timer.Reset(slowCall)
}

func (m *slowCallMonitor) end() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer.Stop()
	m.timer = nil
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// InputEnv tells an instance to end when its input does: nobody is left who could end it.
const InputEnv = "SECKILL_ENDS_WITH_INPUT"

// member is an instance and its process.
type member struct {
	n     int
	path  string
	env   []string
	addr  string
	proxy *httputil.ReverseProxy
	ready atomic.Bool

	mu      sync.Mutex
	process *exec.Cmd      // nil before the start, and after the end
	input   io.WriteCloser // of the process
	ended   chan struct{}  // closed when it has ended
}

// start starts the process, unless it runs.
func (m *member) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		return nil
	}
	c := exec.Command(m.path, "serve", "--http", m.addr)
	c.Env = append(append(os.Environ(), m.env...), InputEnv+"=1")
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("instance %d: %w", m.n, err)
	}
	ended := make(chan struct{})
	m.process, m.input, m.ended = c, input, ended
	go func() {
		_ = c.Wait() // the page says that it has ended
		m.ready.Store(false)
		m.mu.Lock()
		m.process = nil
		m.mu.Unlock()
		close(ended)
	}()
	return nil
}

// kill ends the process as a crash does. Its locks stay until their leases have run out.
func (m *member) kill() {
	m.mu.Lock()
	process, ended := m.process, m.ended
	m.mu.Unlock()
	if process != nil {
		_ = process.Process.Kill() // fails only if it has ended
		<-ended
	}
}

// end lets the process drain.
func (m *member) end() error {
	m.mu.Lock()
	process, input, ended := m.process, m.input, m.ended
	m.mu.Unlock()
	if process == nil {
		return nil
	}
	_ = input.Close()
	select {
	case <-ended:
		return nil
	case <-time.After(patience):
		m.kill()
		return fmt.Errorf("instance %d didn't end within %v", m.n, patience)
	}
}

// pid is 0 if the process has ended.
func (m *member) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return 0
	}
	return m.process.Process.Pid
}

// look asks whether the instance is ready until ctx ends.
func (m *member) look(ctx context.Context) {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		m.ready.Store(m.pid() != 0 && answers(ctx, client, m.addr) == nil)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func answers(ctx context.Context, client *http.Client, addr string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

package plan

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/redlatch/redlatch/test/bench/internal/load"
	"github.com/redlatch/redlatch/test/internal/process"
)

// WorkerCommand is the argument that makes this program a worker; a load.Config
// in JSON follows.
const WorkerCommand = "worker"

// worker is this program once more, in another process.
type worker struct {
	process  *exec.Cmd
	commands io.Writer
	replies  *bufio.Reader
	result   *load.Result
}

// startWorker starts a worker that ends when the host does: it reads the end
// of its standard input, also after a crash of this process.
func startWorker(ctx context.Context, host process.Host, config load.Config) (*worker, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	command := exec.CommandContext(ctx, program, WorkerCommand, string(text))
	command.Stderr = os.Stderr // for a crash
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &worker{process: command, commands: in, replies: bufio.NewReader(out)}
	host.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait() // it is killed where ctx has ended
	})
	return w, nil
}

func (w *worker) send(command string) error {
	if _, err := fmt.Fprintln(w.commands, command); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (w *worker) kill() { _ = w.process.Process.Kill() } // fails only if it has ended

func (w *worker) answer() error {
	line, err := w.replies.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	var reply load.Reply
	if err := json.Unmarshal(line, &reply); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	w.result = reply.Result
	if reply.Error != "" {
		return errors.New("worker: " + reply.Error)
	}
	return nil
}

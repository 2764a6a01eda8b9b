package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/core/lock"
)

// child runs the command under the lease, and returns how it ended: nil, or its exit code,
// or that the lease was lost.
func (r *running) child(cmd *cobra.Command, path string, command []string, lease *lock.Lease, signals *signals) error {
	// The kernel kills the command with the thread that started it: see attributes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &exec.Cmd{
		Path: path, Args: command, Stdin: os.Stdin, Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
		Env: append(os.Environ(), "REDLATCH_KEY="+lease.Key(), "REDLATCH_FENCE="+strconv.FormatUint(lease.Fence(), 10)),
	}
	own := attributes(c)
	if err := c.Start(); err != nil {
		return exitError{code: exitNoExecute, err: err}
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	lost, kill := lease.Context().Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-ended:
			return outcome(err, context.Cause(lease.Context()))
		case sig := <-signals.all:
			if own || !ofTerminal(sig) { // a terminal has sent it to the command as well
				send(c, own, sig)
			}
		case <-lost:
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redlatch: %s: %v: ending the command\n", lease.Key(), context.Cause(lease.Context()))
			send(c, own, syscall.SIGTERM)
			lost, kill = nil, time.After(r.grace)
		case <-kill:
			send(c, own, syscall.SIGKILL)
		}
	}
}

// outcome is how a command has ended, whose lease may have been lost.
func outcome(err, lost error) error {
	if errors.Is(lost, lock.ErrLost) {
		return exitError{code: exitLost, quiet: true, err: lost}
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return exitError{code: exitNoExecute, err: err}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitError{code: exitSignalBase + int(status.Signal()), quiet: true, err: err}
	}
	return exitError{code: exit.ExitCode(), quiet: true, err: err}
}

// number is that of a signal.
func number(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}

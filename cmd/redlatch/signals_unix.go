//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// passedOn are the signals that the command gets as well.
var passedOn = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// attributes prepares the start of the command. own says that it is in a group of its own,
// which gets our signals as a whole. Where a terminal has the keyboard it stays in ours.
func attributes(c *exec.Cmd) (own bool) {
	own = !term.IsTerminal(int(os.Stdin.Fd()))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: own}
	dieWithParent(c.SysProcAttr)
	return own
}

func send(c *exec.Cmd, own bool, sig os.Signal) {
	n, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	pid := c.Process.Pid
	if own {
		pid = -pid
	}
	_ = syscall.Kill(pid, n)
}

// ofTerminal says whether a terminal sends the signal to all of its group.
func ofTerminal(sig os.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }

// signals are the signals that the process got.
type signals struct{ all chan os.Signal }

func catchSignals() *signals {
	s := &signals{make(chan os.Signal, 16)}
	signal.Notify(s.all, passedOn...)
	return s
}

func (s *signals) stop() { signal.Stop(s.all) }

// cancels calls cancel on a signal. What it returns ends that, and returns the signal.
func (s *signals) cancels(cancel func()) (stopped func() os.Signal) {
	quit, got := make(chan struct{}), make(chan os.Signal, 1)
	go func() {
		select {
		case sig := <-s.all:
			cancel()
			got <- sig
		case <-quit:
			got <- nil
		}
	}()
	return func() os.Signal {
		close(quit)
		return <-got
	}
}

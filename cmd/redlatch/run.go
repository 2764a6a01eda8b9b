package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// running are the flags of the commands that run others.
type running struct {
	*connection
	wait, minHold, watchdog, grace time.Duration
	permits, service               string
	read, write, fair, verbose     bool
}

func newRun(c *connection) *cobra.Command {
	r := &running{connection: c}
	cmd := &cobra.Command{
		Use:   "run KEY [flags] -- COMMAND [ARG]...",
		Short: "Run a command while it holds a lock",
		Long: `run takes the lock, runs the command, and frees the lock when the command has ended. It
is for cron, systemd and Kubernetes what flock is on one host.

Without --wait it tries once, and exits with 75 if the lock is busy. It says nothing of
its own unless --verbose. The command finds REDLATCH_KEY and REDLATCH_FENCE in its
environment: the fence grows with each grant, so that a database can refuse an older one.

Signals are passed on. If the lock is lost, as the store is away for too long or somebody has
released it by force, the command gets SIGTERM, and SIGKILL after --grace; the exit code
is 70. If redlatch itself is killed on Linux, the command is killed as well.`,
		Example: `  # cron on three hosts: one of them runs the report, the others exit with 75
  * * * * *  redlatch run report --min-hold 50s -- /usr/local/bin/report

  # wait up to a minute, and use at most 3 of 10 permits of an API
  redlatch run partner-api --permits 3/10 --wait 1m -- ./sync.sh

  # migrate the database while nobody else does
  redlatch run db:migrate --wait 10m --grace 30s -- goose up`,
		Args: keyAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0], args[1:]) },
	}
	r.flags(cmd)
	cmd.Flags().DurationVar(&r.wait, "wait", 0, "how long to wait for the lock; 0 tries once")
	cmd.Flags().DurationVar(&r.minHold, "min-hold", 0, "keep the lock for that long, however soon the command ends, as clocks of hosts differ")
	cmd.Flags().StringVar(&r.permits, "permits", "", "take `n/m` permits of a semaphore")
	cmd.Flags().BoolVar(&r.read, "read", false, "take a read lock, which other readers share")
	cmd.Flags().BoolVar(&r.write, "write", false, "take a write lock, which keeps readers out")
	cmd.Flags().BoolVar(&r.fair, "fair", false, "queue with the other hosts, first come first served")
	cmd.MarkFlagsMutuallyExclusive("permits", "read", "write", "fair")
	return cmd
}

func (r *running) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&r.watchdog, "watchdog", lock.DefaultWatchdog, "how long the lock outlives a host that died")
	cmd.Flags().DurationVar(&r.grace, "grace", 10*time.Second, "time between SIGTERM and SIGKILL when the lock is lost")
	cmd.Flags().StringVar(&r.service, "service", "", "`name` that operators see; default the command's")
	cmd.Flags().BoolVar(&r.verbose, "verbose", false, "say what happens")
	cmd.Flags().SetInterspersed(true)
}

// keyAndCommand wants KEY -- COMMAND, so that no flag of the command is read as one of ours.
func keyAndCommand(cmd *cobra.Command, args []string) error {
	if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
		return usage("want KEY -- COMMAND [ARG]..., such as: redlatch %s nightly -- ./report.sh", cmd.Name())
	}
	return nil
}

func (r *running) options(command string) ([]lock.Option, error) {
	service := r.service
	if service == "" {
		service = command[strings.LastIndexByte(command, '/')+1:]
	}
	opts := []lock.Option{
		lock.WithIdentity(lock.Identity{Service: service}), lock.WithWatchdog(r.watchdog), lock.WithWait(r.wait), lock.WithMinHold(r.minHold),
	}
	switch {
	case r.read:
		opts = append(opts, lock.WithMode(lock.Read))
	case r.write:
		opts = append(opts, lock.WithMode(lock.Write))
	case r.fair:
		opts = append(opts, lock.WithMode(lock.Fair))
	case r.permits != "":
		var n, size int
		if got, err := fmt.Sscanf(r.permits+" ", "%d/%d ", &n, &size); err != nil || got != 2 {
			return nil, usage("--permits %q: want n/m, such as 3/10", r.permits)
		}
		opts = append(opts, lock.WithPermits(n, size))
	}
	return opts, nil
}

// opens makes a locker with these options, whose mistakes are those of the command line.
func (r *running) opens(cmd *cobra.Command, command string) (*opened, error) {
	opts, err := r.options(command)
	if err != nil {
		return nil, err
	}
	if err := lock.New(memstore.New()).Check("k", opts[1:]...); err != nil {
		return nil, usage("%v", err)
	}
	warnings := io.Discard
	if r.verbose {
		warnings = cmd.ErrOrStderr()
	}
	return r.open(warnings, opts...)
}

// prepare finds the command, and opens the locker.
func (r *running) prepare(cmd *cobra.Command, command string) (path string, o *opened, err error) {
	if path, err = lookPath(command); err == nil {
		o, err = r.opens(cmd, command)
	}
	return path, o, err
}

// interrupted is the exit of a program that a signal ends while it waits for the lock.
func interrupted(sig os.Signal) error {
	return exitError{code: exitSignalBase + number(sig), quiet: true, err: errors.New("interrupted")}
}

func (r *running) run(cmd *cobra.Command, key string, command []string) error {
	path, o, err := r.prepare(cmd, command[0])
	if err != nil {
		return err
	}
	signals := catchSignals()
	defer signals.stop()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	stopped := signals.cancels(cancel)
	lease, err := o.locker.Acquire(ctx, key)
	if sig := stopped(); sig != nil {
		if err == nil {
			_ = lease.Release(context.WithoutCancel(cmd.Context()))
		}
		_ = o.close(cmd.Context())
		return interrupted(sig)
	}
	if err != nil {
		_ = o.close(cmd.Context())
		return exitError{code: codeOf(err), quiet: errors.Is(err, lock.ErrBusy) && !r.verbose, err: err}
	}
	r.say(cmd, "%s: locked, fence %d", key, lease.Fence())
	result := r.child(cmd, path, command, lease, signals)
	_ = lease.Release(context.WithoutCancel(cmd.Context()))
	if err := o.close(cmd.Context()); err != nil {
		r.say(cmd, "%s: not freed, it ends by itself: %v", key, err)
	}
	return result
}

func (r *running) say(cmd *cobra.Command, format string, args ...any) {
	if r.verbose {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redlatch: "+format+"\n", args...)
	}
}

func lookPath(command string) (string, error) {
	path, err := exec.LookPath(command)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, os.ErrPermission):
		return "", exitError{code: exitNoExecute, err: err}
	default:
		return "", exitError{code: exitNotFound, err: err}
	}
}

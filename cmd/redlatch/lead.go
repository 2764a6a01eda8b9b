package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/core/lock"
)

func newLead(c *connection) *cobra.Command {
	r := &running{connection: c, wait: lock.MaxDuration}
	cmd := &cobra.Command{
		Use:   "lead KEY [flags] -- COMMAND [ARG]...",
		Short: "Run a command on one host only, and on another when that one fails",
		Long: `lead waits until it has the lock, and runs the command for as long as it keeps it. If the
lock is lost, the command is ended, and started again when this host has the lock again.
A store that is away is waited for; one that refuses, as the password is wrong, ends lead
with 69. When the command ends by itself, lead frees the lock and exits with its code.`,
		Example: `  # a scheduler that must run once in the fleet; start it on each host
  redlatch lead scheduler -- ./scheduler

  # a fail-over within 5 s after a host has died
  redlatch lead scheduler --watchdog 5s -- ./scheduler

  # as a systemd unit: ExecStart=
  /usr/local/bin/redlatch lead scheduler --grace 30s -- /usr/local/bin/scheduler`,
		Args: keyAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error { return r.lead(cmd, args[0], args[1:]) },
	}
	r.flags(cmd)
	return cmd
}

// retryAway is the pause while the store is away.
const retryAway = time.Second

func (r *running) lead(cmd *cobra.Command, key string, command []string) error {
	path, o, err := r.prepare(cmd, command[0])
	if err != nil {
		return err
	}
	signals := catchSignals()
	defer signals.stop()
	err = r.leadOn(cmd, o, key, path, command, signals)
	_ = o.close(cmd.Context())
	return err
}

func (r *running) leadOn(cmd *cobra.Command, o *opened, key, path string, command []string, signals *signals) error {
	for {
		err := r.term(cmd, o, key, path, command, signals)
		if !errors.Is(err, lock.ErrLost) {
			return err
		}
		r.say(cmd, "%s: no longer leading", key)
	}
}

// term is from one election to the end of the command.
func (r *running) term(cmd *cobra.Command, o *opened, key, path string, command []string, signals *signals) error {
	ctx, cancel := context.WithCancel(cmd.Context()) // the lease's, too
	defer cancel()
	lease, err := r.elected(ctx, cancel, cmd, o, key, signals)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	r.say(cmd, "%s: leading, fence %d", key, lease.Fence())
	return r.child(cmd, path, command, lease, signals)
}

// elected waits for the lock, and for a store that is away.
func (r *running) elected(ctx context.Context, cancel func(), cmd *cobra.Command, o *opened, key string, signals *signals) (*lock.Lease, error) {
	stopped := signals.cancels(cancel)
	lease, err := o.locker.Acquire(ctx, key)
	for said := false; away(err) && ctx.Err() == nil; said = true {
		if !said {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "redlatch: %s: %v: waiting\n", key, err)
		}
		select {
		case <-time.After(retryAway):
			lease, err = o.locker.Acquire(ctx, key)
		case <-ctx.Done():
		}
	}
	if sig := stopped(); sig != nil {
		if err == nil {
			_ = lease.Release(context.WithoutCancel(ctx))
		}
		return nil, interrupted(sig)
	}
	return lease, err
}

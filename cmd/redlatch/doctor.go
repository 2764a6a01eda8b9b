package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule/rulefile"
)

func newDoctor(c *connection) *cobra.Command {
	timeout := 10 * time.Second
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether Redis or a database can keep locks, and say what to put right",
		Long: `doctor takes, renews and releases a lock of each mode on a key that nobody uses, on every
master, with the user, the scripts and the tables that real locks have. It reads the
settings that lose locks, and tries what ls and names need. If a database lacks the
tables, it prints the statements. It exits with 69 if locks can't be kept.`,
		Example: `  redlatch doctor
  redlatch doctor --redis rediss://locks@redis:6380/0 --password-file /run/secrets/redis
  redlatch doctor --cluster --redis redis://node-1:6379
  redlatch doctor --db postgres://locks@db/app`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return c.doctor(ctx, cmd)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long it may take")
	return cmd
}

func (c *connection) doctor(ctx context.Context, cmd *cobra.Command) error {
	var warnings bytes.Buffer
	o, err := c.open(&warnings)
	if err != nil {
		return err
	}
	defer func() { _ = o.close(ctx) }()
	out := cmd.OutOrStdout()
	say := func(mark, what, how string) { _, _ = fmt.Fprintf(out, "%-4s  %-28s  %s\n", mark, what, how) }
	var bad error
	for _, m := range c.modes() {
		if err := o.store.Check(ctx, m); err != nil {
			say("BAD", m.String()+" locks", err.Error())
			bad = errors.Join(bad, err)
			if ctx.Err() != nil || errors.Is(err, lock.ErrUnavailable) && lock.ClassOf(err) != "NOPERM" {
				break // the others would say the same
			}
			continue
		}
		say("ok", m.String()+" locks", "taken, renewed, released and heard of")
	}
	if bad == nil {
		c.optional(ctx, o, say)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(warnings.String()) {
		if _, message, found := strings.Cut(strings.TrimSpace(line), "msg="); found && !seen[message] {
			seen[message] = true
			say("WARN", "settings", message)
		}
	}
	if bad != nil {
		return exitError{code: exitAway, err: fmt.Errorf("%s can't keep all locks", o.where)}
	}
	return nil
}

func (c *connection) modes() []lock.Mode {
	if c.setnx {
		return []lock.Mode{lock.Exclusive}
	}
	return []lock.Mode{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore}
}

// optional tries what locks do without.
func (c *connection) optional(ctx context.Context, o *opened, say func(mark, what, how string)) {
	var err error
	for _, failed := range o.locker.List(ctx, "redlatch:check:*", lock.MaxPage) {
		err = failed
		break
	}
	try := func(what, works, cure string, err error) {
		if err != nil {
			say("WARN", what, fmt.Sprintf("%s: %s", cure, lock.ClassOf(err)))
			return
		}
		say("ok", what, works)
	}
	try("ls, watch", "locks can be listed", o.cures.list, err)
	registration := lock.Registration{Locker: o.locker.ID(), Identity: o.locker.Identity(), Since: time.Now()}
	err = errors.Join(o.store.Register(ctx, registration, time.Second), o.store.Unregister(ctx, o.locker.ID()))
	try("names of holders", "can be kept", o.cures.names, err)
	end, err := o.store.Announced(ctx, func(string, string) {})
	if err == nil {
		end()
	}
	if errors.Is(err, lock.ErrUnsupported) { // by databases, without a connection that listens
		say("ok", "forced releases", "holders learn of them at their next renewal")
		return
	}
	try("forced releases", "holders learn of them at once", o.cures.names, err)
}

func newRules() *cobra.Command {
	rules := &cobra.Command{Use: "rules", Short: "Check files with rules"}
	rules.AddCommand(&cobra.Command{
		Use:   "check FILE...",
		Short: "Check files with rules",
		Long: `check reads files with rules, in YAML or JSON, as a program would that loads them, and
prints each fault with its line. It needs no server. It exits with 64 if there is one.`,
		Example: `  redlatch rules check locks.yaml
  redlatch rules check deploy/*/locks.yaml
  git diff --name-only | grep locks.yaml | xargs redlatch rules check`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var bad error
			for _, file := range files {
				set, err := rulefile.Load(file)
				if err != nil {
					_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: %v\n", file, err)
					bad = exitError{code: exitUsage, quiet: true, err: errors.New("a file has a fault")}
					continue
				}
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %d rules\n", file, len(set.Rules()))
			}
			return bad
		},
	})
	return rules
}

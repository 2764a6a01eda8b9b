package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/core/lock"
)

// listing are the flags of what lists locks.
type listing struct {
	*connection
	heldFor time.Duration
	host    string
	zombies bool
	json    bool
	page    int
}

func newList(c *connection) *cobra.Command {
	l := &listing{connection: c}
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that are held",
		Long: `ls lists the locks that are held, and by whom. It reads Redis with SCAN on each master, or
the table of a database, a page at a time, and prints the first rows at once. A pattern is
that of Redis: *, ? and [a-c].

HOLDER is the service, host and process of a holder that has said so, as those of this
kit do with an identity. SINCE and FENCE are what the holder says; they are missing for
the first seconds of a hold. LEFT is when the lock ends unless it is renewed. WAITING is
how many processes wait, or callers in a fair lock. A zombie is the hold of a process of
this kit that has ended, or has no identity.`,
		Example: `  redlatch ls
  redlatch ls 'order:*' --held-for 1m
  redlatch ls --zombies --json | jq -r .key
  redlatch ls --db postgres://locks@db/app`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.list(cmd, pattern(args)) },
	}
	l.flags(cmd)
	cmd.Flags().BoolVar(&l.json, "json", false, "one JSON object a line")
	return cmd
}

func (l *listing) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&l.heldFor, "held-for", 0, "only what is held for that long")
	cmd.Flags().StringVar(&l.host, "host", "", "only what this `host` holds")
	cmd.Flags().BoolVar(&l.zombies, "zombies", false, "only what a process holds that has ended")
	cmd.Flags().IntVar(&l.page, "page", 500, "how many keys a page has, 1000 at most")
}

func pattern(args []string) string {
	if len(args) == 0 {
		return "*"
	}
	return args[0]
}

// wants says whether a row passes the filters.
func (l *listing) wants(r row, now time.Time) bool {
	switch {
	case l.heldFor > 0 && (r.Since == nil || now.Sub(*r.Since) < l.heldFor):
		return false
	case l.host != "" && r.Host != l.host:
		return false
	}
	return !l.zombies || r.Zombie
}

func (l *listing) list(cmd *cobra.Command, pattern string) error {
	o, err := l.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { _ = o.close(cmd.Context()) }()
	p := &printer{out: cmd.OutOrStdout(), json: l.json}
	found, err := l.each(cmd.Context(), o, pattern, func(page []row) error { return p.print(page, time.Now()) })
	switch {
	case err != nil:
		return err
	case found == 0:
		return exitError{code: exitBusy, quiet: l.json, err: fmt.Errorf("no lock matches %s at %s", pattern, o.where)}
	}
	return nil
}

const (
	// pageRows and pageTime are how much is printed at a time, so that columns stand below
	// each other and the first rows come at once.
	pageRows = 100
	pageTime = 50 * time.Millisecond
)

// each passes on rows as they come.
func (l *listing) each(ctx context.Context, o *opened, pattern string, show func(page []row) error) (found int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rowsFound, failed := make(chan row, pageRows), make(chan error, 1)
	go func() {
		defer close(rowsFound)
		for listed, err := range o.locker.List(ctx, pattern, l.page) {
			if err != nil {
				failed <- err
				return
			}
			for _, r := range rows(listed) {
				select {
				case rowsFound <- r:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	var page []row
	flush := func() error {
		err := show(page)
		page = page[:0]
		return err
	}
	tick := time.NewTicker(pageTime)
	defer tick.Stop()
	for {
		select {
		case r, more := <-rowsFound:
			if !more {
				err := flush()
				select {
				case err = <-failed:
				default:
				}
				return found, err
			}
			if !l.wants(r, time.Now()) {
				continue
			}
			found++
			if page = append(page, r); len(page) < pageRows {
				continue
			}
		case <-tick.C:
		}
		if err := flush(); err != nil {
			return found, err
		}
	}
}

func newShow(c *connection) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show who holds a lock, and who waits",
		Long: `show tells in words who holds a lock, since when, for how much longer, and with which
fence; and for fair locks who waits, in order. It exits with 75 if nobody holds it.`,
		Example: `  redlatch show order:4711
  redlatch show order:4711 --json
  redlatch --setnx show cron:report`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeKeys(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := c.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer func() { _ = o.close(cmd.Context()) }()
			state, err := o.locker.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				p := &printer{out: cmd.OutOrStdout(), json: true}
				err = p.print(rows(lock.Listed{Key: args[0], State: state, Waiting: len(state.Waiters) + state.MoreWaiters}), time.Now())
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), describe(args[0], state, time.Now()))
			}
			if err == nil && !state.Held {
				err = exitError{code: exitBusy, quiet: true}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each hold")
	return cmd
}

// describe is a lock in words.
func describe(key string, s lock.State, now time.Time) string {
	var b strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	if !s.Held {
		say("%s is free", printable(key))
	} else {
		say("%s is held, mode %s", printable(key), s.Mode)
	}
	for _, r := range rows(lock.Listed{Key: key, State: s}) {
		say("  by     %s", printable(r.holder()))
		say("         owner %s, count %d", printable(r.Owner), r.Holds)
		if r.Format != "" {
			say("         in the format of %s, which says no more", r.Format)
		}
		if r.Since != nil {
			say("         since %s ago, at %s, fence %s", r.since(now), r.Since.UTC().Format(time.RFC3339), r.fence())
		}
		if who, ok := s.Holder(r.Owner); ok {
			say("         process up for %s, version %s", short(now.Sub(who.Since)), printable(orDash(who.Version)))
		}
		if r.Zombie {
			say("         its process has ended, or has no identity")
		}
	}
	if s.MoreOwners > 0 {
		say("  and    %d more", s.MoreOwners)
	}
	switch {
	case s.Held && s.TTL < 0:
		say("  left   no end: it stays until somebody deletes it")
	case s.Held:
		say("  left   %s, unless it is renewed", short(s.TTL))
	}
	for i, w := range s.Waiters {
		name := w
		if who, ok := s.Holder(w); ok {
			name = who.String()
		}
		say("  next %d %s", i+1, printable(name))
	}
	if s.MoreWaiters > 0 {
		say("  and    %d more wait", s.MoreWaiters)
	}
	return b.String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// completeKeys completes a key by the keys that are held.
func completeKeys(c *connection) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (keys []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		o, err := c.open(cmd.ErrOrStderr())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer func() { _ = o.close(cmd.Context()) }()
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		for listed, err := range o.locker.List(ctx, literal(begun)+"*", lock.MaxPage) {
			if err != nil || len(keys) == 100 {
				break
			}
			keys = append(keys, listed.Key)
		}
		return keys, cobra.ShellCompDirectiveNoFileComp
	}
}

// literal is a pattern that matches s alone.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

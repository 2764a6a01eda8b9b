package main

import (
	"cmp"
	"context"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newWatch(c *connection) *cobra.Command {
	l := &listing{connection: c}
	every := 2 * time.Second
	cmd := &cobra.Command{
		Use:   "watch [PATTERN]",
		Short: "Watch the locks that are held, in a live table",
		Long: `watch shows the locks that match, those first that are held longest, and looks again
every two seconds. Ctrl-C ends it. Into a pipe it prints one table after the other.`,
		Example: `  redlatch watch
  redlatch watch 'order:*' --held-for 30s
  redlatch watch --every 10s --host web-3`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.watch(cmd, pattern(args), every) },
	}
	l.flags(cmd)
	cmd.Flags().DurationVar(&every, "every", every, "time between two looks")
	return cmd
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// maxWatched is how many rows are kept of one look.
const maxWatched = 10000

func (l *listing) watch(cmd *cobra.Command, pattern string, every time.Duration) error {
	if every < 100*time.Millisecond {
		return usage("--every %v: must be at least 100ms", every)
	}
	o, err := l.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { _ = o.close(cmd.Context()) }()
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	out := cmd.OutOrStdout()
	fd, live := -1, false
	if f, ok := out.(interface{ Fd() uintptr }); ok {
		fd = int(f.Fd())
		live = term.IsTerminal(fd)
	}
	if live {
		_, _ = fmt.Fprint(out, enterScreen)
		defer func() { _, _ = fmt.Fprint(out, leaveScreen) }()
	}
	for tick := time.NewTicker(every); ; {
		frame := l.frame(ctx, o, pattern)
		if live {
			frame = fitted(frame, fd)
		}
		if ctx.Err() != nil {
			return nil
		}
		if _, err := fmt.Fprint(out, frame); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// frame is one look, or why there is none.
func (l *listing) frame(ctx context.Context, o *opened, pattern string) string {
	var all []row
	found, err := l.each(ctx, o, pattern, func(page []row) error {
		all = append(all, page[:min(len(page), maxWatched-len(all))]...)
		return nil
	})
	now := time.Now()
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "%s  %d held  %s  %s\n\n", now.Format(time.TimeOnly), found, printable(pattern), o.where)
	if err != nil {
		_, _ = fmt.Fprintf(&b, "%v\n", err)
		return b.String()
	}
	slices.SortFunc(all, func(a, b row) int {
		switch {
		case a.Since == nil && b.Since == nil:
			return cmp.Compare(a.Key, b.Key)
		case a.Since == nil:
			return 1
		case b.Since == nil:
			return -1
		}
		return cmp.Or(a.Since.Compare(*b.Since), cmp.Compare(a.Key, b.Key))
	})
	p := &printer{out: &b}
	_ = p.print(all, now)
	return b.String() + "\n"
}

// fitted is what a terminal has room for.
func fitted(frame string, fd int) string {
	width, height, err := term.GetSize(fd)
	if err != nil || width == 0 {
		width, height = 80, 24
	}
	lines := strings.Split(strings.TrimRight(frame, "\n"), "\n")
	if len(lines) > height-1 {
		lines = append(lines[:height-2], fmt.Sprintf("… %d more", len(lines)-height+2))
	}
	var b strings.Builder
	b.WriteString(home)
	for _, line := range lines {
		runes := []rune(line)
		b.WriteString(string(runes[:min(len(runes), width)]) + clearLine + "\r\n")
	}
	return b.String() + clearBelow
}

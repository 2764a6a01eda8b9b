// Command redlatch runs commands under a lock, and shows operators who holds which lock.
//
//	redlatch run nightly-report --wait 10s -- ./report.sh
//	redlatch ls 'order:*'
//	redlatch release order:4711 --reason "web-3 hangs"
//
// It needs a Redis or a database that has the locks: see redlatch --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(context.Background(), os.Args[1:], system())) }

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func system() streams { return streams{os.Stdin, os.Stdout, os.Stderr} }

// execute runs the command line, and returns the exit code.
func execute(ctx context.Context, args []string, std streams) int {
	root := newRoot(std) //nolint:contextcheck // a command ends with its lease
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		if code.err != nil && !code.quiet {
			_, _ = fmt.Fprintln(std.err, "redlatch:", code.err)
		}
		return code.code
	}
	_, _ = fmt.Fprintf(std.err, "redlatch: %v\n", err)
	return codeOf(err)
}

func newRoot(std streams) *cobra.Command {
	c := new(connection)
	root := &cobra.Command{
		Use:   "redlatch",
		Short: "Run commands under a distributed lock, and see who holds which",
		Long: `redlatch runs commands under a lock that all hosts share, and shows operators who
holds which lock. It reads and takes the locks of the Go kit redlatch, of Redisson
(Java), and with --setnx those of redsync, redislock and redis-py. With --db it does so
with the locks of the kit in PostgreSQL, MySQL, MariaDB or SQLite.

The connection is the same for all commands. Give it once, in the environment:
  REDLATCH_REDIS      URL, such as redis://locks@redis:6379/0 or rediss://…
  REDLATCH_DB         URL of a database, such as postgres://locks@db/app
  REDLATCH_PASSWORD   password, which no flag takes, since others can read argv

Exit codes:
  0..255  that of the command which ran; 128+n if signal n ended it
  64      the command line is wrong
  69      the store is away, or refuses
  70      the lock was lost while the command ran, which was ended
  75      the lock is busy, or nothing matched
  126     the command can't be executed
  127     the command was not found`,
		Example: `  redlatch run nightly-report -- ./report.sh
  redlatch ls 'order:*' --held-for 1m
  redlatch show order:4711`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	c.flags(root.PersistentFlags())
	root.AddCommand(newRun(c), newLead(c), newList(c), newShow(c), newWatch(c), newRelease(c), newDoctor(c), newRules())
	return root
}

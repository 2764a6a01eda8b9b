// Bench compares redlatch with other lock libraries, and with what the commands
// alone cost, on a redis-server that it starts.
//
//	bench [run]   measures, prints tables, writes a CSV file and charts
//	bench check   the same, and fails where a requirement is missed
//	bench scale   measures how cost grows with keys, waiters, processes and shards
//	bench databases  compares locks in databases
//	bench docs    writes tables and charts of a run into documents
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

// Exit codes.
const (
	exitFailed = 1 // a requirement is missed, or the run did not work
	exitUsage  = 2
)

// silent keeps go-redis from writing past our output. What fails is counted.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silent{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type commands struct {
	Run       runCommand       `cmd:"" default:"withargs" help:"Measure, print tables, write a CSV file and charts."`
	Check     checkCommand     `cmd:"" help:"Measure, or read what was measured, and fail where a requirement is missed."`
	Scale     scaleCommand     `cmd:"" help:"Measure redlatch alone at several sizes of each kind of load."`
	Databases databasesCommand `cmd:"" help:"Compare redlatch in databases with other locks in them, and fail where a requirement is missed."`
	Docs      docsCommand      `cmd:"" help:"Renew what documents quote of a run."`
	Worker    workerCommand    `cmd:"" hidden:"" help:"One of the processes of a measurement."`
}

// run runs one command and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	exited := -1
	parser, err := kong.New(
		&commands{},
		kong.Name("bench"),
		kong.Description("redlatch and its peers, compared in one run."),
		kong.Writers(out, errs),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(in, (*io.Reader)(nil)),
		kong.Bind(streams{out: out, errs: errs}),
	)
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(errs, "bench:", err)
		return exitFailed
	}
	return 0
}

// streams are where a command writes: results, and all that is about them.
type streams struct{ out, errs io.Writer }

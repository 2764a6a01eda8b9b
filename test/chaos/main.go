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

	"github.com/redlatch/redlatch/test/chaos/internal/nemesis"
)

// Exit codes.
const (
	exitFailed = 1 // a promise is broken, or the run did not work
	exitUsage  = 2
)

// silent keeps go-redis from writing past our log. What fails is in its errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silent{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type commands struct {
	Run      runCommand      `cmd:"" default:"withargs" help:"Run locks and faults, and judge what happened. Exits with 1 if a promise is broken."`
	Replay   replayCommand   `cmd:"" help:"Judge the report of an earlier run again."`
	Controls controlsCommand `cmd:"" help:"Plant bugs, and check that they are found."`
	Worker   workerCommand   `cmd:"" hidden:"" help:"One of the processes of a run."`
}

// run runs one command and returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	exited := -1
	mixes := ""
	for i, mix := range nemesis.Mixes() {
		if i > 0 {
			mixes += ","
		}
		mixes += mix
	}
	parser, err := kong.New(&commands{},
		kong.Name("chaos"),
		kong.Description("Locks under faults, judged by what their users saw."),
		kong.Writers(out, errs),
		kong.Exit(func(code int) { exited = code }),
		kong.Vars{"mixes": mixes},
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(out, (*io.Writer)(nil)),
	)
	if err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(errs, "chaos:", err)
		return exitFailed
	}
	return 0
}

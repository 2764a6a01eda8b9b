// Seckill is a flash-sale voucher service, its load test, and both in one.
//
//	seckill serve   the service
//	seckill fleet   three of it, as processes on one Redis, and a page that kills them
//	seckill load    a crowd against running instances
//	seckill demo    both in one process, with nothing to install
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

// Exit codes.
const (
	exitFailed = 1 // it did not work, or an invariant is broken
	exitUsage  = 2
)

// silent keeps go-redis from writing past our log. What fails is in its errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silent{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(withInput(ctx, os.Stdin), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type commands struct {
	Serve serve     `cmd:"" help:"Run the service until it is stopped."`
	Fleet instances `cmd:"" help:"Run three instances of the service, each a process, on one Redis and one database, behind a balancer. The page /fleet/ kills and starts them."`
	Load  crowd     `cmd:"" help:"Let a crowd order from running instances, and check the invariants. Exits with 1 if one is broken."`
	Demo  demo      `cmd:"" help:"Run the service and a crowd in one process: locks in memory, orders in SQLite."`
}

// terminal is where commands write.
type terminal struct{ out, err io.Writer }

// logger writes for operators.
func (t terminal) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: level}))
}

// run runs one command and returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	exited := -1
	parser, err := kong.New(&commands{},
		kong.Name("seckill"),
		kong.Description("A flash sale: vouchers, one for each user, no more than there are."),
		kong.Writers(out, errs),
		kong.Exit(func(code int) { exited = code }),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(terminal{out, errs}),
	)
	if err != nil {
		fmt.Fprintln(errs, "seckill:", err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintln(errs, "seckill:", err)
		fmt.Fprintln(errs, `Try "seckill --help".`)
		return exitUsage
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(errs, "seckill:", oneLine(err))
		return exitFailed
	}
	return 0
}

// oneLine writes an error that lists several in one line.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' })
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

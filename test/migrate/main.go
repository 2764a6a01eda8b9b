// Migrate replaces the processes of a fleet, which take locks with another
// library, one by one with processes of redlatch, while all of them contend for
// the same locks. A referee on another Redis counts how often two were inside a
// lock at the same time. docs/migrate.md says what the steps are.
//
//	migrate [-grants 100000]   runs every migration, and prints a table
//
// It exits with 1 if two were inside at the same time.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
)

func main() {
	redis.SetLogger(silent{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// silent keeps go-redis from writing about connections.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// run returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) == 2 && args[0] == workerCommand {
		return report(errs, work(ctx, args[1]))
	}
	flags := flag.NewFlagSet("migrate", flag.ContinueOnError)
	flags.SetOutput(errs)
	grants := flags.Int("grants", 100_000, "how often locks are granted in all migrations together")
	if flags.Parse(args) != nil {
		return 2
	}
	dir, err := os.MkdirTemp("", "redlatch-migrate-")
	if err != nil {
		return report(errs, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := func(line string) { fmt.Fprintln(errs, line) }
	return report(errs, process.RunProgram(ctx, dir, log, func(p *process.Program) { migrateAll(p, routes, *grants, out) })) //nolint:contextcheck // the host has it
}

func report(errs io.Writer, err error) int {
	if err != nil {
		fmt.Fprintln(errs, "migrate:", err)
		return 1
	}
	return 0
}

// migrateAll runs all migrations, and prints a table.
func migrateAll(host process.Host, routes []route, grants int, out io.Writer) {
	var all []route
	for _, r := range routes {
		if why := r.from.missing(); why != "" {
			fmt.Fprintf(out, "*** SKIPPED, NOT TESTED: from %s: %s ***\n", r.from, why)
			continue
		}
		all = append(all, r)
	}
	fmt.Fprintln(out, "| from | to | grants | of the old library | of redlatch | processes replaced | of these killed | two inside at a time |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|")
	for _, r := range all {
		result := migrate(host, r, grants/len(all))
		fmt.Fprintln(out, result)
		for _, fault := range result.faults {
			host.Errorf("from %s: %s", r.from, fault)
		}
	}
}

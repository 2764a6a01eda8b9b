// Command lockgen writes decorators that take the locks which directives on
// the methods of interfaces name. Package annotations says what they do, and
// docs/annotations.md what a directive may look like.
//
// Add it to a module, and call it where the interfaces are:
//
//	go get -tool github.com/redlatch/redlatch/annotations/cmd/lockgen
//
//	//go:generate go tool lockgen
//
// "go tool lockgen -check ./..." fails, and shows a difference, where what is
// checked in isn't what it would write.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/redlatch/redlatch/annotations/cmd/lockgen/internal/lockgen"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintf(os.Stderr, "lockgen: %v\n", err)
		return 2
	}
	return lockgen.Run(ctx, dir, os.Args[1:], os.Stdout, os.Stderr)
}

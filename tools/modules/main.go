// Command modules looks after the modules of this repository. Most of them require
// each other in a version that isn't published yet, which the go command alone can't
// resolve. The Makefile runs it, from the folder tools:
//
//	go run ./modules tidy [-check]     tidies every go.mod, or only says which isn't tidy
//	go run ./modules fetch             does with each module what its users will do
//	go run ./modules version VERSION   lets them require each other in that version
//	go run ./modules release VERSION   lists the tags of a version, in their order
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: modules tidy [-check] | fetch | version VERSION | release VERSION")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	repo, err := load(ctx, root)
	if err != nil {
		return err
	}
	switch command, args := args[0], args[1:]; {
	case command == "tidy" && len(args) == 0:
		return repo.tidy(ctx)
	case command == "tidy" && len(args) == 1 && args[0] == "-check":
		return repo.checkTidy(ctx, out)
	case command == "fetch" && len(args) == 0:
		return repo.fetch(ctx, out)
	case command == "version" && len(args) == 1:
		return repo.require(args[0])
	case command == "release" && len(args) == 1:
		return repo.release(ctx, out, args[0])
	}
	return errUsage
}

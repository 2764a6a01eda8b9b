package main

import (
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/core/lock"
)

// Exit codes, as sysexits.h and the shell have them.
const (
	exitUsage      = 64
	exitAway       = 69
	exitLost       = 70
	exitBusy       = 75
	exitNoExecute  = 126
	exitNotFound   = 127
	exitSignalBase = 128
)

// exitError ends the program with a code. quiet says that everything has been said.
type exitError struct {
	code  int
	quiet bool
	err   error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// away says that a call failed as the store is away, and not as it refuses: waiting may help.
func away(err error) bool {
	var failed *lock.StoreError
	refused := errors.As(err, &failed) && failed.Outcome == lock.OutcomeRefused
	return errors.Is(err, lock.ErrUnavailable) && !refused && lock.ClassOf(err) != "NOPERM"
}

// codeOf is the exit code of an error of the kit.
func codeOf(err error) int {
	switch {
	case errors.Is(err, lock.ErrLost):
		return exitLost
	case errors.Is(err, lock.ErrBusy):
		return exitBusy
	case errors.Is(err, lock.ErrUnavailable), errors.Is(err, lock.ErrUnsupported):
		return exitAway
	default: // cobra's own errors, and arguments that the kit refuses
		return exitUsage
	}
}

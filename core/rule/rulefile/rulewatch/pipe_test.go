//go:build unix

package rulewatch_test

import (
	"strings"
	"syscall"
	"testing"
)

func TestAPipeInTheFilesPlaceIsNotWaitedFor(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	remove(t, path)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		if err := f.eventuallyFails(t, n); strings.Contains(err.Error(), "no regular file") {
			break
		}
	}
	remove(t, path)
	replace(t, path, text("b"))
	f.eventually(t, "b")
}

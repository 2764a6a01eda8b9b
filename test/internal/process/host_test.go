package process_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/internal/process"
)

var _ process.Host = testing.TB(nil)

func TestAProgramCleansUpAfterAFatalError(t *testing.T) {
	var order []string
	var dir string
	err := process.RunProgram(t.Context(), t.TempDir(), func(string) {}, func(p *process.Program) {
		dir = p.TempDir()
		p.Cleanup(func() {
			order = append(order, "first")
			if p.Context().Err() == nil {
				t.Error("the context lives on while cleanups run")
			}
		})
		p.Cleanup(func() {
			order = append(order, "second")
			p.Fatalf("a cleanup failed")
		})
		p.Errorf("reported")
		p.Fatal("over")
		order = append(order, "never")
	})
	if want := []string{"second", "first"}; !slices.Equal(order, want) {
		t.Errorf("ran %q, want %q", order, want)
	}
	for _, text := range []string{"reported", "over", "a cleanup failed"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("its folder is gone: %v", err)
	}
}

func TestAProgramSkipsNothing(t *testing.T) {
	err := process.RunProgram(context.Background(), t.TempDir(), func(string) {}, func(p *process.Program) {
		process.Find(p, "no-such-server")
	})
	if err == nil || !strings.Contains(err.Error(), "no-such-server") {
		t.Errorf("got %v, want that the server is missing", err)
	}
}

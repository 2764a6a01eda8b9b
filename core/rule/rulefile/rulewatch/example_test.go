package rulewatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile/rulewatch"
)

// The rules of the program stay, those of the file change with it.
func ExampleStart() {
	folder, _ := os.MkdirTemp("", "rules")
	defer os.RemoveAll(folder) //nolint:errcheck // the system cleans up as well
	file := filepath.Join(folder, "locks.yaml")
	_ = os.WriteFile(file, []byte("rules:\n- operation: POST /orders\n  key: lock:order:<userId>\n"), 0o600)

	locker := lock.New(memstore.New())
	defer locker.Close(context.Background())
	mine := []rule.Rule{{Operation: "nightly", Key: "lock:nightly"}}
	g := guard.Must(guard.New(locker, mine...))

	w := rulewatch.Start(file, func(set *rule.Set) error {
		return g.Replace(append(set.Rules(), mine...), set.Unlocked()...)
	}, rulewatch.WithLogger(slog.New(slog.DiscardHandler)))
	defer w.Close()
	for _, r := range g.Rules() {
		fmt.Println(r.Operation, r.Key)
	}
	// Output:
	// POST /orders lock:order:<userId>
	// nightly lock:nightly
}

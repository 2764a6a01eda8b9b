package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redlatch/redlatch/examples/seckill/internal/app"
)

type demo struct {
	people `embed:""`
}

// Run serves on a free port, lets the crowd loose and ends.
func (d *demo) Run(ctx context.Context, t terminal) error {
	a, err := app.Start(ctx, app.Config{HTTP: "127.0.0.1:0", Log: t.logger(slog.LevelWarn)})
	if err != nil {
		return err
	}
	if err := errors.Join(d.storm(ctx, t, []string{a.URL()}), a.Stop(ctx)); err != nil {
		return err
	}
	fmt.Fprint(t.out, "To see what the lock is for: make serve, and open http://127.0.0.1:8080/\n")
	return nil
}

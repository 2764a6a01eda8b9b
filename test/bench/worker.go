package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/redlatch/redlatch/test/bench/internal/load"
)

// workerCommand is what a measurement starts this program as.
type workerCommand struct {
	Config string `arg:"" help:"A load.Config in JSON."`
}

// Run lives until its standard input ends.
func (c *workerCommand) Run(ctx context.Context, in io.Reader, to streams) error {
	var config load.Config
	if err := json.Unmarshal([]byte(c.Config), &config); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return load.Run(ctx, config, in, to.out)
}

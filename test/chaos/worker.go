package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redlatch/redlatch/test/chaos/internal/worker"
)

// workerCommand is what a run starts itself as.
type workerCommand struct {
	Config string `arg:"" help:"A worker.Config in JSON."`
}

// Run lives until it is ended.
func (c *workerCommand) Run(ctx context.Context) error {
	var config worker.Config
	if err := json.Unmarshal([]byte(c.Config), &config); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return worker.Run(ctx, config)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/bug"
)

// controlsCommand runs what has to fail. A checker that finds nothing there
// says nothing when it finds nothing elsewhere.
type controlsCommand struct {
	Seed     uint64        `default:"1"`
	Duration time.Duration `default:"12s" help:"Of each of the runs."`
	Only     string        `help:"Name of the only control to run."`
	Report   string        `help:"Folder for the reports. Default: none are kept."`
}

// control is a run in which something must be found.
type control struct {
	name, mix string
	bug       string
	volatile  bool // Redis loses its data when it is killed
}

var controls = []control{
	{name: "unfenced", mix: "pause"},
	{name: bug.BlindRetry, mix: "network", bug: bug.BlindRetry},
	{name: bug.IncrFence, mix: "crash", bug: bug.IncrFence, volatile: true},
	{name: bug.NoOwner, mix: "pause", bug: bug.NoOwner},
	{name: bug.LateLoss, mix: "network", bug: bug.LateLoss},
}

// Run runs all controls, and fails if one of them found nothing.
func (c *controlsCommand) Run(ctx context.Context, out io.Writer) error {
	var failed []error
	for _, control := range controls {
		if c.Only != "" && c.Only != control.name {
			continue
		}
		if err := c.one(ctx, out, control); err != nil {
			failed = append(failed, fmt.Errorf("control %s: %w", control.name, err))
		}
	}
	return errors.Join(failed...)
}

func (c *controlsCommand) one(ctx context.Context, out io.Writer, control control) error {
	dir := filepath.Join(c.Report, control.name)
	if c.Report == "" {
		var err error
		if dir, err = os.MkdirTemp("", "chaos-control-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // below the system's folder for such things
	}
	run := runCommand{
		Seed: c.Seed, Duration: c.Duration, Topology: "standalone", Mix: control.mix, Mode: "exclusive", Report: dir,
		Lease: 300 * time.Millisecond, Processes: 8, Clients: 4, Rate: 11, Durable: !control.volatile, Bug: control.bug,
	}
	summary, err := run.once(ctx, out)
	if err != nil {
		return err
	}
	switch {
	case len(summary.Broken) > 0:
		return errors.New("the run did not work")
	case control.bug == "" && !summary.Sound():
		return errBroken
	case control.bug == "" && summary.PlainLost == 0:
		return errors.New("writes without a fence were not lost: the faults do not bite")
	case control.bug != "" && len(summary.Violations) == 0:
		return errors.New("the bug was not found")
	}
	fmt.Fprintf(out, "control %s: found\n", control.name)
	return nil
}

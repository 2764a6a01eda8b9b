package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/bug"
	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/report"
)

// controlsCommand runs what has to fail. A checker that finds nothing there
// says nothing when it finds nothing elsewhere.
type controlsCommand struct {
	Seed     uint64        `default:"1"`
	Duration time.Duration `default:"10s" help:"Of the runs, which are made at the same time."`
	Only     string        `help:"Name of the only control to run."`
	Report   string        `help:"Folder for the reports. Default: none are kept."`
}

// control is a run in which something must be found.
type control struct {
	name, mix string
	rules     []string      // by one of which the bug is found
	mode      string        // of the locks; default: exclusive
	topology  string        // default: standalone
	lease     time.Duration // default: leaseOfControls
	rate      float64       // of faults
	long      int
	leave     int           // percent, default: 3
	keep      int           // percent, default: 0
	volatile  bool          // Redis loses its data when it is killed
	think     time.Duration // of clients that do not do all they can
	pace      time.Duration // of a Redis that is slow
}

// busy is how a control is run whose Redis has a limit that the load comes near
// to, so that a service which does too much for each call can't do it for all.
const (
	busyThink = 100 * time.Millisecond
	busyPace  = 5 * time.Millisecond
)

const leaseOfControls = 300 * time.Millisecond

var controls = []control{
	{name: "unfenced", mix: "pause", rate: 4, long: 2},
	{name: "stall", mix: "stall", long: 2, think: busyThink, pace: busyPace},
	{name: bug.Unlowered, mix: "none", mode: "readwrite", rules: []string{"model illegal"}},
	{name: bug.LowerRemoves, mix: "none", mode: "readwrite", rules: []string{"overlap", "model illegal"}},
	{name: bug.LowerAgain, mix: "none", mode: "readwrite", rules: []string{"model illegal"}},
	{name: bug.IncrFence, mix: "crash", rate: 4, long: 2, rules: []string{"fence twice"}, volatile: true},
	{name: bug.NoOwner, mix: "pause", rate: 4, long: 2, rules: []string{"overlap"}},
	{name: bug.LIFO, mix: "none", mode: "fair", rules: []string{"fair order"}},
	{name: bug.Stranded, mix: "none", rules: []string{"stranded"}},
	{name: bug.NoUndo, mix: "none", leave: 30, rules: []string{"model illegal"}},
	{name: bug.ExtendShortens, mix: "none", long: 30, rules: []string{"overlap", "handover"}},
	{name: bug.OwnerReuse, mix: "replies", rate: 11, long: 2, rules: []string{"overlap", "handover", "model illegal"}},
	{name: bug.Unspaced, mix: "none", rules: []string{"fence twice"}},
	{name: bug.StaleHandoff, mix: "none", rules: []string{"overlap"}},
	{name: bug.FreshTrust, mix: "none", rules: []string{"trust"}},
	{name: bug.MessageGrants, mix: "none", rules: []string{"overlap"}},
	{name: bug.Unkept, mix: "none", keep: 20, rules: []string{"unkept"}},
	{name: bug.DeafLeader, mix: "pause", mode: "leader", rate: 4, rules: []string{"trust", "overlap"}},
	{name: bug.Unheard, mix: "none", rules: []string{"unheard"}},
	{name: bug.ForgetfulClose, mix: "none", rules: []string{"left"}},
	{name: bug.EndlessWatch, mix: "none", rules: []string{"subscribed"}},
	{name: bug.Unflushed, mix: "crash", topology: "postgresql", lease: 2 * leaseOfControls, rate: 2, long: 30, rules: []string{"overlap", "handover", "model illegal"}},
	{name: bug.Collapse, mix: "stall", long: 2, think: busyThink, pace: busyPace, rules: []string{"no service", "growth"}},
}

// Run runs all controls, and fails if one of them found nothing.
func (c *controlsCommand) Run(ctx context.Context, out io.Writer) error {
	chosen := slices.DeleteFunc(slices.Clone(controls), func(one control) bool { return c.Only != "" && c.Only != one.name })
	if len(chosen) == 0 {
		return fmt.Errorf("there is no control %q", c.Only)
	}
	pages, failed := make([]bytes.Buffer, len(chosen)), make([]error, len(chosen))
	var running sync.WaitGroup
	places := make(chan struct{}, atATime)
	for i, control := range chosen {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if err := c.one(ctx, &pages[i], control); err != nil {
				failed[i] = fmt.Errorf("control %s: %w", control.name, err)
			}
		})
	}
	running.Wait()
	for i := range pages {
		if _, err := pages[i].WriteTo(out); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// atATime is how many controls are run side by side: more would make each other
// late.
const atATime = 4

// tries is how often a control may run: whether a bug shows is up to chance,
// and more so on a slow machine. It has to show once.
const tries = 3

// one runs a control, longer each time, until it finds what it has to. Of a
// good run, only what it found is printed.
func (c *controlsCommand) one(ctx context.Context, out io.Writer, control control) error {
	dir := filepath.Join(c.Report, control.name)
	if c.Report == "" {
		var err error
		if dir, err = os.MkdirTemp("", "chaos-control-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // below the system's folder for such things
	}
	for try := range tries {
		run := runCommand{
			Seed: c.Seed + uint64(try), Duration: c.Duration << try, Topology: cmp.Or(control.topology, "standalone"), Mix: control.mix, Mode: cmp.Or(control.mode, "exclusive"),
			Report: filepath.Join(dir, fmt.Sprintf("try-%d", try+1)), Lease: cmp.Or(control.lease, leaseOfControls), Processes: 4, Clients: 6,
			Rate: control.rate, Long: control.long, Durable: !control.volatile, Handoff: true, Leave: cmp.Or(control.leave, 3), Keep: control.keep, Think: control.think, Pace: control.pace,
			Bug: control.planted(), patience: 3 * time.Second,
		}
		var page bytes.Buffer
		summary, err := run.once(ctx, &page)
		if err != nil {
			return err
		}
		err = control.verdict(summary)
		if err == nil {
			_, err = fmt.Fprintf(out, "control %-15s %6d attempts, %3d faults: %s\n", control.name, summary.Attempts, summary.FaultTotal, control.found(summary))
			return err
		}
		if !errors.Is(err, errNotFound) || try+1 == tries || ctx.Err() != nil {
			return errors.Join(err, flush(out, &page))
		}
	}
	return nil
}

func flush(out io.Writer, page *bytes.Buffer) error {
	_, err := page.WriteTo(out)
	return err
}

// planted is the bug of a control. Those without a rule have none.
func (c control) planted() string {
	if len(c.rules) == 0 {
		return ""
	}
	return c.name
}

// found says what a run has shown.
func (c control) found(s *report.Summary) string {
	switch {
	case c.pace > 0 && c.planted() == "":
		return "the service came back"
	case c.planted() == "":
		return fmt.Sprintf("%d of %d writes without a fence were lost", s.PlainLost, s.Plain)
	}
	return fmt.Sprintf("%d violations: %s", len(s.Violations), strings.Join(s.Rules(), ", "))
}

// errNotFound is what a control ends with that showed nothing.
var errNotFound = errors.New("what is wrong was not found")

// verdict is nil if a run found what it had to.
func (c control) verdict(s *report.Summary) error {
	found := slices.ContainsFunc(s.Violations, func(v check.Violation) bool { return slices.Contains(c.rules, v.Rule) })
	switch {
	case c.planted() == "" && !s.Sound():
		return errBroken
	case c.planted() == "" && c.pace == 0 && s.PlainLost == 0:
		return fmt.Errorf("%w: no write without a fence was lost", errNotFound)
	case c.planted() != "" && len(s.Broken) > 0:
		return errors.New("the run did not work")
	case c.planted() != "" && !found:
		return fmt.Errorf("%w by the rule %q", errNotFound, c.rules)
	}
	return nil
}

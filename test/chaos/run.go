package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/report"
)

// errBroken is what a run ends with that found something.
var errBroken = errors.New("a promise is broken")

// runCommand is one run, or several, with a seed more each.
type runCommand struct {
	Seed      uint64        `default:"1" help:"What the plan of the faults and the clients' choices come from."`
	Duration  time.Duration `default:"60s" help:"How long faults happen. Longer than --round makes several runs."`
	Round     time.Duration `default:"60s" help:"Longest single run: histories are checked in memory."`
	Topology  string        `default:"standalone" enum:"standalone,sentinel,cluster,quorum,postgresql,mariadb" help:"${enum}."`
	Mix       string        `default:"all" enum:"${mixes}" help:"What breaks: ${enum}."`
	Mode      string        `default:"all" enum:"exclusive,handed,nested,fair,readwrite,semaphore,leader,all" help:"Kinds of locks: ${enum}."`
	Report    string        `help:"Folder for the report. Default: a new one, which is removed if all is well."`
	Lease     time.Duration `help:"Lease time of all locks. Default: 300 ms, for a database 600 ms."`
	Processes int           `help:"Worker processes. Default: 8, for a quorum or a database 4."`
	Clients   int           `help:"Clients in each of them. Default: 8, for a quorum 4, for a database 6."`
	Rate      float64       `default:"11" help:"Faults a second that are planned."`
	Long      int           `default:"2" help:"Percent of the leases that are kept for longer than they last without renewal."`
	Durable   bool          `default:"true" negatable:"" help:"Redis syncs its log before it answers (standalone, quorum)."`
	Handoff   bool          `default:"true" negatable:"" help:"Hand holds on inside a process, as lock.WithHandoff does by default."`
	SETNX     bool          `name:"setnx" help:"Keep locks in the format of SETNX: exclusive ones only."`
	Bug       string        `default:"" hidden:""`
	Leave     int           `default:"3" hidden:""`
	Keep      int           `default:"3" hidden:""`
	Think     time.Duration `default:"0" hidden:""`
	Pace      time.Duration `default:"0" hidden:""`
	patience  time.Duration
}

func (c *runCommand) flags() report.Flags {
	return report.Flags{
		Seed: c.Seed, Duration: c.Duration, Mix: c.Mix, Mode: c.Mode, Durable: c.Durable, Processes: c.Processes,
		Clients: c.Clients, Rate: c.Rate, Long: c.Long, Handoff: c.Handoff, SETNX: c.SETNX, Bug: c.Bug, Leave: c.Leave, Keep: c.Keep, Think: c.Think, Pace: c.Pace,
		Settings: check.Settings{Topology: c.Topology, Lease: c.Lease, Patience: c.patience},
	}
}

// Run runs the rounds. It ends with the first that isn't sound.
func (c *runCommand) Run(ctx context.Context, out io.Writer) error {
	for kind, chosen := range map[string]bool{"a quorum": c.Topology == "quorum", "the format of SETNX": c.SETNX} {
		switch {
		case c.Mode == "exclusive", c.Mode == "leader", !chosen:
		case c.Mode == "all":
			c.Mode = "leader" // which has exclusive locks, too
		default:
			return fmt.Errorf("%s has no mode %s", kind, c.Mode)
		}
	}
	c.crew()
	left := c.Duration
	for round := *c; ; round.Seed++ {
		round.Duration = min(left, c.Round)
		if c.Report != "" && c.Duration > c.Round {
			round.Report = filepath.Join(c.Report, fmt.Sprintf("seed-%d", round.Seed))
		}
		summary, err := round.once(ctx, out)
		if err != nil {
			return err
		}
		if !summary.Sound() {
			return errBroken
		}
		if c.Duration > c.Round && c.Report != "" {
			if err := report.Folder(round.Report).Shrink(); err != nil {
				return err
			}
		}
		if left -= round.Duration; left <= 0 {
			return ctx.Err()
		}
	}
}

// crew fills in how many workers there are, and the lease, of which half is the time for a
// call. Every call of a quorum is five, and one of a database costs as much. A server with a
// process for each connection also answers late when others want the processor.
func (c *runCommand) crew() {
	processes, clients, lease := 8, 8, 300*time.Millisecond
	switch c.Topology {
	case "quorum":
		processes, clients = 4, 4
	case "postgresql", "mariadb":
		processes, clients, lease = 4, 6, 600*time.Millisecond
	}
	if c.Lease <= 0 {
		c.Lease = lease
	}
	if c.Processes <= 0 {
		c.Processes = processes
	}
	if c.Clients <= 0 {
		c.Clients = clients
	}
}

// once makes one run and prints its summary.
func (c *runCommand) once(ctx context.Context, out io.Writer) (*report.Summary, error) {
	dir, temporary := c.Report, c.Report == ""
	if temporary {
		var err error
		if dir, err = os.MkdirTemp("", "chaos-report-"); err != nil {
			return nil, err
		}
	}
	folder, err := report.Make(dir)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "chaos: seed %d, %v, %s, faults: %s, locks: %s, %d processes × %d clients%s\n",
		c.Seed, c.Duration, c.Topology, c.Mix, c.Mode, c.Processes, c.Clients, planted(c.Bug))
	if err := play(ctx, folder, c.flags()); err != nil {
		return nil, err
	}
	summary, err := folder.Judge()
	if err != nil {
		return nil, err
	}
	summary.Print(out)
	if temporary && summary.Sound() {
		return summary, os.RemoveAll(dir)
	}
	fmt.Fprintln(out, "report:", dir)
	return summary, nil
}

func planted(bug string) string {
	if bug == "" {
		return ""
	}
	return ", planted bug: " + bug
}

// replayCommand judges a report again.
type replayCommand struct {
	Dir string `arg:"" type:"existingdir" help:"The report."`
}

// Run prints the summary.
func (c *replayCommand) Run(out io.Writer) error {
	summary, err := report.Folder(c.Dir).Judge()
	if err != nil {
		return err
	}
	summary.Print(out)
	if !summary.Sound() {
		return errBroken
	}
	return nil
}

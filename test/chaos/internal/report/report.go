// Package report is the folder that a run leaves: the settings, what
// happened, and what is to be thought of it.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/nemesis"
	"github.com/redlatch/redlatch/test/chaos/internal/resource"
)

// Names of the files in a report.
const (
	flagsFile   = "flags.json"
	planFile    = "plan.json"
	HistoryFile = "history.jsonl"
	FaultsFile  = "faults.jsonl"
	endFile     = "end.json"
	summaryFile = "summary.json"
	picturesDir = "pictures"
	ServersDir  = "servers"
)

// Flags are what a run was started with.
type Flags struct {
	Seed      uint64        `json:"seed"`
	Duration  time.Duration `json:"duration"`
	Mix       string        `json:"mix"`
	Mode      string        `json:"mode"`
	Durable   bool          `json:"durable"`
	Processes int           `json:"processes"`
	Clients   int           `json:"clients"`
	Rate      float64       `json:"rate"`
	Long      int           `json:"long"`
	Bug       string        `json:"bug,omitempty"`
	// Handoff says whether holds are handed on inside a process.
	Handoff bool `json:"handoff"`
	// SETNX says whether locks are strings.
	SETNX bool `json:"setnx,omitempty"`
	// Leave is the share of acquisitions whose context ends soon, in percent.
	Leave int `json:"leave"`
	// Keep is the share of acquisitions with a minimum hold, in percent.
	Keep int `json:"keep,omitempty"`
	// Think is how long clients rest between two turns, and Pace how far apart
	// the requests of a worker pass: together they say how busy Redis is.
	Think time.Duration `json:"think,omitempty"`
	Pace  time.Duration `json:"pace,omitempty"`
	check.Settings
}

// End is what only the run itself could see, after the last call.
type End struct {
	resource.Totals
	Leaks []string `json:"leaks"`
	// Broken is what went wrong with the run itself: it says nothing then.
	Broken  []string      `json:"broken"`
	Elapsed time.Duration `json:"elapsed"`
}

// Folder is a report on disk.
type Folder string

// Make makes a folder for a run. What an earlier one left there is removed:
// servers would go on with its data.
func Make(dir string) (Folder, error) {
	old, err := filepath.Glob(filepath.Join(dir, "worker-*.log"))
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	for _, name := range []string{flagsFile, planFile, HistoryFile, FaultsFile, endFile, summaryFile, picturesDir, ServersDir} {
		old = append(old, filepath.Join(dir, name))
	}
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return "", fmt.Errorf("report: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, picturesDir), 0o755); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return Folder(dir), nil
}

// Path is that of a file in the folder.
func (f Folder) Path(name string) string { return filepath.Join(string(f), name) }

func (f Folder) write(name string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(f.Path(name), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (f Folder) read(name string, value any) error {
	text, err := os.ReadFile(f.Path(name))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("report: %s: %w", name, err)
	}
	return nil
}

// Begin writes what a run was started with.
func (f Folder) Begin(flags Flags) error { return f.write(flagsFile, flags) }

// Plan writes what the nemesis is going to do.
func (f Folder) Plan(plan []nemesis.Step) error { return f.write(planFile, plan) }

// Finish writes what is known after it.
func (f Folder) Finish(end End) error { return f.write(endFile, end) }

// Judge reads the folder, checks the history and writes the summary.
func (f Folder) Judge() (*Summary, error) {
	var s Summary
	if err := f.read(flagsFile, &s.Flags); err != nil {
		return nil, err
	}
	if err := f.read(endFile, &s.End); err != nil {
		return nil, err
	}
	var plan []nemesis.Step
	if err := f.read(planFile, &plan); err != nil {
		return nil, err
	}
	s.Planned = len(plan)
	events, err := history.Read[history.Event](f.Path(HistoryFile))
	if err != nil {
		return nil, err
	}
	faults, err := history.Read[history.Fault](f.Path(FaultsFile))
	if err != nil {
		return nil, err
	}
	if err := s.judge(events, faults, f.Path(picturesDir)); err != nil {
		return nil, err
	}
	return &s, f.write(summaryFile, &s)
}

// Shrink removes what is of no use when all was well: long runs leave many
// reports. What stays can't be judged again.
func (f Folder) Shrink() error {
	for _, name := range []string{HistoryFile, picturesDir, ServersDir} {
		if err := os.RemoveAll(f.Path(name)); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/nemesis"
	"github.com/redlatch/redlatch/test/chaos/internal/report"
)

func folder(t *testing.T, end report.End, events ...history.Event) report.Folder {
	t.Helper()
	return folderOfPlan(t, end, 0, 0, events...)
}

// folderOfPlan is a report in which so many faults were planned and happened.
func folderOfPlan(t *testing.T, end report.End, planned, happened int, events ...history.Event) report.Folder {
	t.Helper()
	f, err := report.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	flags := report.Flags{Seed: 5, Settings: check.Settings{Topology: "standalone", Lease: 300 * time.Millisecond}}
	if err := f.Begin(flags); err != nil {
		t.Fatal(err)
	}
	if err := f.Plan(make([]nemesis.Step, planned)); err != nil {
		t.Fatal(err)
	}
	writeLines(t, f.Path(report.HistoryFile), events)
	writeLines(t, f.Path(report.FaultsFile), make([]history.Fault, happened))
	if err := f.Finish(end); err != nil {
		t.Fatal(err)
	}
	return f
}

func writeLines[T any](t *testing.T, path string, lines []T) {
	t.Helper()
	file, err := history.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if err := file.Add(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func grant(owner string, at int64, fence uint64) []history.Event {
	e := history.Event{
		Kind: history.Grant, Key: "k", Mode: "exclusive", Owner: owner, Call: at, Return: at + 10, Fence: fence,
		TTL: int64(300 * time.Millisecond),
	}
	taken := e
	taken.Kind, taken.Outcome = history.Acquire, history.OK
	return []history.Event{e, taken}
}

func TestASecondJudgementIsTheFirst(t *testing.T) {
	f := folder(t, report.End{Leaks: []string{"a key"}}, append(grant("a", 100, 5), grant("b", 200, 6)...)...)
	var before string
	for range 2 {
		s, err := f.Judge()
		if err != nil {
			t.Fatal(err)
		}
		if s.Sound() || s.Attempts != 2 || s.Histories.Illegal != 1 || len(s.Violations) != 2 || len(s.Leaks) != 1 {
			t.Errorf("judged as %+v", s)
		}
		s.CheckTook = 0
		var out bytes.Buffer
		s.Print(&out)
		if before != "" && out.String() != before {
			t.Errorf("first\n%s\nthen\n%s", before, out.String())
		}
		before = out.String()
	}
	if !strings.Contains(before, "VIOLATION handover") || !strings.Contains(before, "LEAK a key") {
		t.Errorf("the table does not say what is wrong:\n%s", before)
	}
}

func TestWhatMakesARunUnsound(t *testing.T) {
	for name, test := range map[string]struct {
		end    report.End
		events []history.Event
		sound  bool
	}{
		"nothing":         {report.End{}, grant("a", 100, 5), true},
		"a leak":          {report.End{Leaks: []string{"x"}}, grant("a", 100, 5), false},
		"the run itself":  {report.End{Broken: []string{"x"}}, grant("a", 100, 5), false},
		"a leak of its":   {report.End{}, append(grant("a", 100, 5), history.Event{Kind: history.Exit, Outcome: history.Lost, Note: "goroutine"}), false},
		"a double grant":  {report.End{}, append(grant("a", 100, 5), grant("b", 200, 6)...), false},
		"a lost update":   {report.End{}, append(grant("a", 100, 5), history.Event{Kind: history.Write, Key: "k", Mode: "exclusive", Value: 2}), false},
		"a call too much": {report.End{}, append(grant("a", 100, 5), history.Event{Kind: history.Begin, Key: "k", Mode: "exclusive"}), false},
		"no grant at all": {report.End{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := folder(t, test.end, test.events...).Judge()
			if err != nil {
				t.Fatal(err)
			}
			if s.Sound() != test.sound {
				t.Errorf("sound is %v", s.Sound())
			}
		})
	}
}

// A run in which little happened must not pass for one in which all was well.
func TestAQuietRunIsInvalid(t *testing.T) {
	two := append(grant("a", 100, 5), grant("b", 400_000_000, 6)...)
	for name, test := range map[string]struct {
		planned, happened int
		sound             bool
	}{
		"no faults, none planned": {0, 0, true},
		"all came about":          {2, 2, true},
		"half came about":         {4, 2, true},
		"less than half did":      {5, 2, false},
		"none did":                {1, 0, false},
		"fewer grants than that":  {3, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := folderOfPlan(t, report.End{}, test.planned, test.happened, two...).Judge()
			if err != nil {
				t.Fatal(err)
			}
			if s.Sound() != test.sound {
				t.Errorf("sound is %v: %q", s.Sound(), s.Broken)
			}
		})
	}
}

// Servers that find the data of an earlier run go on with it.
func TestAFolderOfAnEarlierRunIsEmptiedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	touch := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mine := touch("notes.txt")
	old := []string{touch("servers/01/nodes.conf"), touch("pictures/k.html"), touch("history.jsonl"), touch("worker-3.log")}
	if _, err := report.Make(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left", path)
		}
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error("a file that no run has written is gone")
	}
}

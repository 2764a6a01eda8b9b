package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
	"github.com/redlatch/redlatch/test/chaos/internal/report"
)

func folder(t *testing.T, end report.End, events ...history.Event) report.Folder {
	t.Helper()
	f, err := report.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	flags := report.Flags{Seed: 5, Settings: check.Settings{Topology: "standalone", Lease: 300 * time.Millisecond}}
	if err := f.Begin(flags); err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string][]history.Event{report.HistoryFile: events, report.FaultsFile: nil} {
		file, err := history.Create(f.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range lines {
			if err := file.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(end); err != nil {
		t.Fatal(err)
	}
	return f
}

func grant(owner string, at int64, fence uint64) []history.Event {
	e := history.Event{
		Kind: history.Grant, Key: "k", Mode: "exclusive", Owner: owner, Call: at, Return: at + 10, Fence: fence, Holds: 1,
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
		"a leak of its":   {report.End{}, []history.Event{{Kind: history.Exit, Outcome: history.Lost, Note: "goroutine"}}, false},
		"a double grant":  {report.End{}, append(grant("a", 100, 5), grant("b", 200, 6)...), false},
		"a lost update":   {report.End{}, []history.Event{{Kind: history.Write, Key: "k", Mode: "exclusive", Value: 2}}, false},
		"a call too much": {report.End{}, []history.Event{{Kind: history.Begin, Key: "k", Mode: "exclusive"}}, false},
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

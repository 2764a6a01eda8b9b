package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/peer"
	"github.com/redlatch/redlatch/test/bench/internal/result"
)

func TestDocumentsQuoteARun(t *testing.T) {
	dir := t.TempDir()
	csv, doc := filepath.Join(dir, csvName), filepath.Join(dir, "doc.md")
	table := &result.Table{}
	table.Add(0, "R1", peer.Redlatch, map[string]float64{result.Rate: 4321})
	table.Add(0, "R1", peer.Floor, map[string]float64{result.Rate: 5000})
	rewrite(t, csv, table)
	if err := os.WriteFile(filepath.Join(dir, machineName), []byte("- a fast one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const before = "# Title\n\n<!-- bench machine -->\n<!-- end -->\n\n<!-- bench R1 -->\nold\n<!-- end -->\n\nprose\n\n<!-- bench verdict -->\n<!-- end -->\n<!-- bench chart uncontended -->\n<!-- end -->\n"
	for range 2 { // a second time changes nothing
		if err := os.WriteFile(doc, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := bench(t, "docs", "--from="+csv, doc); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"# Title\n", "| redlatch | 4321 |", "- a fast one", `src="benchmarks/uncontended.svg"`, "\nprose\n", "× floor"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Contains(string(text), "old") {
		t.Errorf("the old table is still there:\n%s", text)
	}
	if info, err := os.Stat(filepath.Join(dir, "benchmarks", "uncontended.svg")); err != nil || info.Size() == 0 {
		t.Errorf("no chart: %v", err)
	}
}

func TestDocumentsQuoteOnlyWhatThereIs(t *testing.T) {
	dir := t.TempDir()
	csv, doc := filepath.Join(dir, csvName), filepath.Join(dir, "doc.md")
	table := &result.Table{}
	table.Add(0, "R1", peer.Floor, map[string]float64{result.Rate: 5000})
	rewrite(t, csv, table)
	for _, text := range []string{"nothing", "<!-- bench R99 -->\n<!-- end -->", "<!-- bench chart none -->\n<!-- end -->", "<!-- bench R2 -->\n<!-- end -->"} {
		if err := os.WriteFile(doc, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out := bench(t, "docs", "--from="+csv, doc); code != exitFailed {
			t.Errorf("%q: exit code %d: %s", text, code, out)
		}
		if after, err := os.ReadFile(doc); err != nil || string(after) != text {
			t.Errorf("%q became %q, %v", text, after, err)
		}
	}
}

// A page among the charts shows them, too.
func TestDocumentsShowTheChartsOfTheirFolder(t *testing.T) {
	dir := t.TempDir()
	csv, doc := filepath.Join(dir, csvName), filepath.Join(dir, chartFolder, "doc.md")
	table := &result.Table{}
	table.Add(0, "R1", peer.Redlatch, map[string]float64{result.Rate: 4321})
	table.Add(0, "R1", peer.Floor, map[string]float64{result.Rate: 5000})
	rewrite(t, csv, table)
	if err := os.Mkdir(filepath.Dir(doc), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(doc, []byte("<!-- bench chart uncontended -->\n<!-- end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := bench(t, "docs", "--from="+csv, doc); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if text, err := os.ReadFile(doc); err != nil || !strings.Contains(string(text), `src="uncontended.svg"`) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(doc), "uncontended.svg")); err != nil {
		t.Error(err)
	}
}

// What the documents quote must be there, or the next run can't renew it.
func TestTheDocumentsOfTheRepositoryCanBeRenewed(t *testing.T) {
	for _, name := range []string{"benchmarks.md", "benchmarks/compare.md", "benchmarks/databases.md", "benchmarks/scale.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if begins, parts := strings.Count(string(text), "<!-- bench "), len(quoted.FindAll(text, -1)); begins != parts || parts == 0 {
			t.Errorf("%s: %d beginnings, %d parts", name, begins, parts)
		}
		for _, part := range quoted.FindAllSubmatch(text, -1) {
			if string(part[1]) == "machine" {
				continue
			}
			if _, err := quotation(string(part[1]), "", "", &result.Table{}); err != nil && !strings.Contains(err.Error(), "was not measured") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

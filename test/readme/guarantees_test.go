package readme_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const guarantees = "docs/guarantees.md"

var update = flag.Bool("update", false, "write the last table of "+guarantees)

// statement is a mark of the page, and the tests that show what it says.
type statement struct {
	mark  string
	tests []string
}

// statements are those of test/guarantees.yaml, in their order.
func statements(t *testing.T) (all []statement) {
	t.Helper()
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, "test/guarantees.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	pairs := file.Content[0].Content
	for i := 0; i < len(pairs); i += 2 {
		s := statement{mark: pairs[i].Value}
		if err := pairs[i+1].Decode(&s.tests); err != nil {
			t.Fatalf("%s: %v", s.mark, err)
		}
		all = append(all, s)
	}
	return all
}

// A mark is that of a section, or the first cell of a row, which may have several.
var (
	sectionMark = regexp.MustCompile(`^## (S\d+): `)
	rowMarks    = regexp.MustCompile(`^\| ((?:G?\d+)(?:, \d+)*) \|`)
)

// marksOf are the marks of a page, sorted.
func marksOf(page string) (marks []string) {
	for line := range strings.Lines(page) {
		if match := sectionMark.FindStringSubmatch(line); match != nil {
			marks = append(marks, match[1])
		} else if match := rowMarks.FindStringSubmatch(line); match != nil {
			marks = append(marks, strings.Split(match[1], ", ")...)
		}
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// The page says what holds, and its last table which test shows it.
func TestEveryStatementOfTheGuaranteesHasATest(t *testing.T) {
	const begin, end = "<!-- generated -->\n", "<!-- end -->\n"
	page := read(t, guarantees)
	said, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for its table", guarantees)
	}
	declared := declaredTests(t)
	var table strings.Builder
	table.WriteString("| statement | tests |\n|---|---|\n")
	var shown []string
	for _, s := range statements(t) {
		shown = append(shown, s.mark)
		if len(s.tests) == 0 {
			t.Errorf("no test shows %s", s.mark)
		}
		for _, test := range s.tests {
			if !slices.Contains(declared, test) {
				t.Errorf("%s: there is no %s", s.mark, test)
			}
		}
		fmt.Fprintf(&table, "| %s | `%s` |\n", s.mark, strings.Join(s.tests, "`, `"))
	}
	slices.Sort(shown)
	marks := marksOf(said)
	if len(marks) < 60 {
		t.Errorf("%d marks: the reader does not work", len(marks))
	}
	for _, mark := range marks {
		if !slices.Contains(shown, mark) {
			t.Errorf("test/guarantees.yaml names no test of %s", mark)
		}
	}
	for i, mark := range shown {
		if !slices.Contains(marks, mark) || i > 0 && shown[i-1] == mark {
			t.Errorf("test/guarantees.yaml: %s names it twice, or %s says nothing of it", mark, guarantees)
		}
	}
	written := said + begin + "\n" + table.String() + "\n" + end + after
	switch {
	case *update:
		if err := os.WriteFile(filepath.Join(root, guarantees), []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
	case written != page:
		t.Errorf("the table of %s is not that of test/guarantees.yaml: go test ./test/readme -run Guarantees -update", guarantees)
	}
}

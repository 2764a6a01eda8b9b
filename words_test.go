package redlatch_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// phrase is what our text doesn't say, and what it says instead. A phrase is a
// sequence of words, each with its alternatives: "ask|asks the|a store".
type phrase struct{ words, instead string }

const ask, whom = "ask|asks|asked|asking ", "store|stores|server|servers|redis|node|nodes|master|masters|replica|replicas|engine|locker|guard|database"

var retired = []phrase{
	{"those that|who", "name them: the calls that"},
	{"whoever", "the caller that, the process that"},
	{"any more", "no longer"},
	{"takes in", "reads, records, includes"},
	{"give|gives|gave|given|giving back", "return, release"},
	{"told", "gets, is notified, receives"},
	{"tells", "reports, says, returns"},
	{"in place of", "instead of"},
	{"beside", "next to, along with, besides"},
	{"door|doors", "integration, middleware, interceptor"},
	{"texts", "strings"},
	{"is|are|be|as a|no text", "string"},
	{ask + whom, "call, query"},
	{ask + "the|a|its|every|each|all|one|no|another " + whom, "call, query"},
	{"is|are|was|were over", "has ended, has passed"},
	{"of its|their|our own", "its own ..., separate"},
	{"learn|learns|learned|learnt of", "is notified of, sees"},
	{"belong|belongs into", "belongs in"},
	{"heir|heirs", "next owner"},
	{"nap|naps", "poll attempt"},
	{"astray", "unassigned"},
	{"promptstore", "non-blocking store"},
}

// foreign are files whose words stay as they are: the tables of this test, and of the
// script that counts, generated code, and a list that quotes the subjects of commits.
var foreign = regexp.MustCompile(`^(words_test\.go|words\.(sh|md)|.*\.pb\.go|bugs-found\.md)$`)

func TestWordsRetiredOnesStayAway(t *testing.T) {
	var found []string
	files, err := readTexts(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 500 {
		t.Fatalf("only %d files: the reader does not work", len(files))
	}
	for name, text := range files {
		found = append(found, wordsIn(name, text)...)
	}
	slices.Sort(found)
	for _, fault := range found {
		t.Error(fault)
	}
}

func TestWordsCheckerCatchesPlantedOnes(t *testing.T) {
	for name, test := range map[string]struct{ file, content, want string }{
		"comment":                {"a.go", "package a\n\n// those that wait", "a.go:3"},
		"across lines":           {"a.go", "package a\n\n// it does not wait any\n// more", "a.go:3"},
		"across lines, indented": {"a.go", "package a\n\nfunc f() {\n\t// in place\n\t// of it\n}", "a.go:4"},
		"block comment":          {"a.go", "package a\n/* whoever\n waits */", "a.go:2"},
		"string":                 {"a.go", "package a\nconst x = \"The call is over\"", "a.go:2"},
		"raw string":             {"a.go", "package a\nconst x = `\nis told`", "a.go:3"},
		"upper case":             {"a.go", "package a\n// Whoever waits", "a.go:2"},
		"name in code":           {"a.go", "package a\nvar texts, told = 1, 2", ""},
		"words of two strings":   {"a.go", "package a\nvar x = []string{\"those\", \"that\"}", ""},
		"part of a word":         {"a.go", "package a\n// besides, indoors", ""},
		"after other letters":    {"a.go", "package a\nconst x = \"锁\" // whoever", "a.go:2"},
		"Lua":                    {"a.lua", "-- asks the\n-- server\nreturn 1", "a.lua:1"},
		"YAML":                   {"a.yaml", "a: 1 # of its\n  # own", "a.yaml:1"},
		"Markdown":               {"a.md", "> the lease is\n> over", "a.md:1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := wordsIn(test.file, textOf(test.file, []byte(test.content)))
			if test.want == "" {
				if len(got) != 0 {
					t.Errorf("a legal text is refused: %q", got)
				}
				return
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], test.want+": ") {
				t.Errorf("got %q, want one fault at %s", got, test.want)
			}
		})
	}
}

// wordsIn lists the retired phrases of a text, each with its place.
func wordsIn(name string, text []byte) []string {
	var all []string
	words := split(text)
	for i := range words {
		for _, phrase := range byFirst[words[i].text] {
			last, ok := phrase.at(words[i:])
			if !ok {
				continue
			}
			line := 1 + bytes.Count(text[:words[i].from], []byte("\n"))
			all = append(all, fmt.Sprintf("%s:%d: %q; say: %s", name, line, text[words[i].from:last], phrase.instead))
		}
	}
	return all
}

// byFirst holds the retired phrases by each word that they can begin with.
var byFirst = func() map[string][]phrase {
	index := make(map[string][]phrase)
	for _, phrase := range retired {
		first, _, _ := strings.Cut(phrase.words, " ")
		for word := range strings.SplitSeq(first, "|") {
			index[word] = append(index[word], phrase)
		}
	}
	return index
}()

// at reports whether words begin with the phrase, and where its last word ends.
func (p phrase) at(words []word) (end int, ok bool) {
	for i, alternatives := range strings.Fields(p.words) {
		if i == len(words) || i > 0 && !words[i].follows || !slices.Contains(strings.Split(alternatives, "|"), words[i].text) {
			return 0, false
		}
		end = words[i].to
	}
	return end, true
}

// word is one of a text, in lower case.
type word struct {
	text     string
	from, to int
	follows  bool // only white space is between it and the word before it
}

func split(text []byte) []word {
	var words []word
	for i := 0; i < len(text); {
		if !ofWord(text[i]) {
			i++
			continue
		}
		from := i
		for i < len(text) && ofWord(text[i]) {
			i++
		}
		follows := len(words) > 0 && len(bytes.TrimSpace(text[words[len(words)-1].to:from])) == 0
		words = append(words, word{strings.ToLower(string(text[from:i])), from, i, follows})
	}
	return words
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func ofWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80
}

// readTexts returns the text of every file below root that people read.
func readTexts(root string) (map[string][]byte, error) {
	texts := make(map[string][]byte)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file != root && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if foreign.MatchString(name) {
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		if text := textOf(file, content); text != nil {
			texts[file] = text
		}
		return nil
	})
	return texts, err
}

// lineStart is what a line of a comment or of a quotation begins with.
var lineStart = regexp.MustCompile(`(?m)^[ \t]*(//+|--+|#+|>+|\*)`)

// textOf blanks out all of a file that is not text for people, and the marks in
// front of the lines of comments, so that words stay at their offsets. It returns
// nil for a file without such text.
func textOf(name string, content []byte) []byte {
	switch cmp.Or(path.Ext(name), path.Base(name)) {
	case ".go", ".java", ".proto": // alike in comments and strings
		return textOfGo(content)
	case ".lua", ".md", ".yaml", ".yml", ".sh", ".html", ".css", ".js", "Makefile":
		return lineStart.ReplaceAllFunc(content, blank)
	}
	return nil
}

// textOfGo keeps comments and strings.
func textOfGo(content []byte) []byte {
	text := slices.Clone(content)
	for i, c := range text {
		if !isSpace(c) {
			text[i] = '.'
		}
	}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(content))
	var tokens scanner.Scanner
	tokens.Init(file, content, nil, scanner.ScanComments)
	for {
		at, kind, literal := tokens.Scan()
		switch kind {
		case token.EOF:
			return lineStart.ReplaceAllFunc(text, blank)
		case token.COMMENT, token.STRING:
			copy(text[file.Offset(at):], literal)
		}
	}
}

func blank(mark []byte) []byte {
	return []byte(strings.Repeat(" ", len(mark)))
}

package readme_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files lists the files of the repository that end so, by their path from the
// root. Folders that the go command skips are left out.
func files(t *testing.T, end string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, end) {
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// block is a fenced block of a Markdown file.
type block struct {
	language, text string
	line           int
}

// split separates fenced blocks from the prose around them. The prose keeps its
// line numbers. A block in a list loses the indentation of its fence.
func split(markdown string) (prose []string, blocks []block) {
	var open *block
	indentation := ""
	for i, line := range strings.Split(markdown, "\n") {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, line: i + 1}
			indentation = line[:strings.Index(line, "```")]
		case fence:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indentation) + "\n"
		default:
			prose = append(prose, line)
			continue
		}
		prose = append(prose, "")
	}
	return prose, blocks
}

// marks are what the anchor of a heading loses.
var marks = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)

// anchor is one that a page has besides those of its headings: a translation has those of
// the page in English.
var anchor = regexp.MustCompile(`^<a id="([^"]+)"></a>$`)

// anchors are the fragments that a link into the file may have.
func anchors(markdown string) map[string]bool {
	all := map[string]bool{}
	prose, _ := split(markdown)
	for _, line := range prose {
		if match := anchor.FindStringSubmatch(line); match != nil {
			all[match[1]] = true
		}
		if hashes, title, ok := strings.Cut(line, " "); ok && hashes != "" && strings.Trim(hashes, "#") == "" {
			all[strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	return all
}

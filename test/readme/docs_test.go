package readme_test

import (
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	linkTarget = regexp.MustCompile(`(?:\]\(|src(?:set)?=")([^)"\s]+)[^)"]*[)"]`)
	webAddress = regexp.MustCompile(`https?://[^\s)>"'` + "`" + `]+`)
	code       = regexp.MustCompile("`[^`]*`")
)

func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	checked := 0
	for _, file := range files(t, ".md") {
		prose, _ := split(read(t, file))
		for i, line := range prose {
			for _, match := range linkTarget.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				target, err := url.Parse(match[1])
				if err != nil {
					t.Errorf("%s:%d: %v", file, i+1, err)
					continue
				}
				if target.Scheme != "" {
					continue
				}
				checked++
				if fault := follow(t, file, target); fault != "" {
					t.Errorf("%s:%d: %s: %s", file, i+1, match[1], fault)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no link was found: the reader does not work")
	}
}

// follow says what is wrong with a relative link, "" if nothing is.
func follow(t *testing.T, from string, target *url.URL) string {
	t.Helper()
	to := from
	if target.Path != "" {
		to = path.Join(path.Dir(from), target.Path)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
		return "there is no such file"
	}
	if target.Fragment != "" && !anchors(read(t, to))[target.Fragment] {
		return "there is no such heading"
	}
	return ""
}

// hosts are the ones that documents may send a reader to. Where packages come from
// is the business of the reader's own set-up.
var hosts = map[string]bool{
	"github.com": true, "keepachangelog.com": true, "semver.org": true, "redis.io": true, "valkey.io": true,
	"www.rfc-editor.org": true, "localhost": true, "127.0.0.1": true, "example.com": true,
}

func TestDocumentsNameNoOtherHosts(t *testing.T) {
	for _, file := range files(t, ".md") {
		for _, text := range webAddress.FindAllString(read(t, file), -1) {
			if address, err := url.Parse(text); err != nil || !hosts[address.Hostname()] {
				t.Errorf("%s: %s: not among the hosts that documents name", file, text)
			}
		}
	}
}

func TestDocumentsNameNoFolderOfThisMachine(t *testing.T) {
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	folders := []string{here}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, home)
	}
	for _, file := range files(t, ".md") {
		text := read(t, file)
		for _, folder := range folders {
			if folder == string(filepath.Separator) {
				continue
			}
			if regexp.MustCompile(`(^|[^\w./-])` + regexp.QuoteMeta(folder) + `(/|\W|$)`).MatchString(text) {
				t.Errorf("%s names %s", file, folder)
			}
		}
	}
}

// makeTarget is a target between backquotes, or in a line of a block.
var makeTarget = regexp.MustCompile("(?m)(?:`|^ *(?:[A-Z_]+=\\S+ )?)make ([a-z/-]+)")

func TestEveryMakeTargetExists(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, file := range files(t, ".md") {
		for _, match := range makeTarget.FindAllStringSubmatch(read(t, file), -1) {
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s: there is no target %q", file, match[1])
			}
		}
	}
}

// option is a func of a file that makes an option.
var option = regexp.MustCompile(`(?m)^func (With\w+)\(.*\) (?:Option|fx\.Option) \{`)

// What can be set is on a page, or nobody finds it who doesn't read the code.
func TestEveryOptionIsInTheManual(t *testing.T) {
	var manual strings.Builder
	for _, file := range files(t, ".md") {
		if strings.HasPrefix(file, "docs/") {
			manual.WriteString(read(t, file))
		}
	}
	found := 0
	for _, file := range files(t, ".go") {
		folder := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || !slices.Contains(slices.Collect(maps.Values(packages)), folder) {
			continue
		}
		for _, match := range option.FindAllStringSubmatch(read(t, file), -1) {
			found++
			// Behind another name than that of its package it is somebody else's.
			own := regexp.MustCompile(`(^|[^.\w]|\b` + path.Base(folder) + `\.)` + match[1] + `\b`)
			if !own.MatchString(manual.String()) {
				t.Errorf("no page of docs names %s.%s", path.Base(folder), match[1])
			}
		}
	}
	if found < 60 {
		t.Errorf("%d options: the reader does not work", found)
	}
}

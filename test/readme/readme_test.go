package readme_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var readmes = []string{"README.md", "README.zh-CN.md"}

// directive is what compiled code says to the linter or to go generate, which
// readers don't need or write otherwise.
var directive = regexp.MustCompile(` *//(nolint:|go:generate ).*`)

// plain is code without indentation, alignment and directives.
func plain(code string) string {
	var lines []string
	for line := range strings.SplitSeq(directive.ReplaceAllString(code, ""), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// shown are the documents whose code is held to what compiles and runs here.
var shown = append([]string{
	"docs/annotations.md", "docs/configuration.md", "docs/fencing.md", "docs/from-redisson.md", "docs/fx.md", "docs/gin.md", "docs/grpc.md", "docs/http.md", "docs/integrations.md", "docs/leader.md", "docs/locks.md",
	"docs/migrate.md", "docs/operations.md", "docs/other-frameworks.md", "docs/quorum.md", "docs/recipes.md", "docs/redis.md", "docs/telemetry.md", "docs/templates.md",
	"docs/testing.md", "docs/without-redis.md",
}, readmes...)

// elsewhere is code that documents show and that other tests run.
var elsewhere = regexp.MustCompile(`^(annotations/internal/shop/shop\.go$|core/lock/example_modes_test\.go$|examples/recipes/|examples/seckill/internal/app/telemetry\.go$|test/fence/orm_test\.go$|test/frameworks/|test/migrate/)`)

// What these documents show is what compiles and runs here.
func TestCodeInTheDocumentsIsCodeThatRuns(t *testing.T) {
	compiled := "\n"
	for _, file := range files(t, ".go") {
		if strings.HasPrefix(file, "test/readme/") || elsewhere.MatchString(file) {
			compiled += plain(read(t, file)) + "\n"
		}
	}
	for _, document := range shown {
		_, blocks := split(read(t, document))
		found := 0
		for _, b := range blocks {
			if b.language != "go" {
				continue
			}
			found++
			if !strings.Contains(compiled, "\n"+plain(b.text)+"\n") {
				t.Errorf("%s:%d: no file that is tested has this code", document, b.line)
			}
		}
		if found == 0 {
			t.Errorf("%s has no code: the reader does not work", document)
		}
	}
	for _, document := range files(t, ".md") {
		_, blocks := split(read(t, document))
		code := slices.ContainsFunc(blocks, func(b block) bool { return b.language == "go" })
		// Tests of contrib compare their own, and translations are compared with the page in English.
		compared := strings.HasPrefix(document, "contrib/") || document != inEnglish(document)
		if code && !slices.Contains(shown, document) && !compared {
			t.Errorf("%s has code, and isn't among the documents that are compared", document)
		}
	}
}

func TestTheFirstCodeIsTheWholeProgram(t *testing.T) {
	for document, file := range map[string]string{
		"README.md":     "test/readme/program/main.go",
		"docs/redis.md": "test/readme/redisprogram/main.go",
	} {
		_, program, _ := strings.Cut(read(t, file), "\n") // below the comment of the package
		_, blocks := split(read(t, document))
		first := slices.IndexFunc(blocks, func(b block) bool { return b.language == "go" })
		if first < 0 || plain(blocks[first].text) != plain(program) {
			t.Errorf("the first code of %s is not %s", document, file)
		}
	}
}

func TestRulesInTheManualAreTheOnesThatAreLoaded(t *testing.T) {
	want := read(t, "test/readme/testdata/locks.yaml")
	_, blocks := split(read(t, "docs/fx.md"))
	if !slices.ContainsFunc(blocks, func(b block) bool { return b.language == "yaml" && b.text == want }) {
		t.Error("docs/fx.md does not show test/readme/testdata/locks.yaml")
	}
}

// The first page persuades and starts: everything else is one link away. A change is a
// commit, and a line of the changelog only if a user must know it.
func TestTheFirstPagesStayShort(t *testing.T) {
	for page, most := range map[string]int{"README.md": 180, "README.zh-CN.md": 180, "CHANGELOG.md": 60} {
		if lines := strings.Count(read(t, page), "\n"); lines > most {
			t.Errorf("%s has %d lines, want %d at most", page, lines, most)
		}
	}
}

// Documents serve a reader. Evidence belongs in tests and package comments.
func TestTheManualStaysShort(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "docs-words.sh"), "40000").Output()
	if err != nil {
		t.Errorf("docs/ has too many words: %v", err)
	}
	for page, most := range map[string]int{
		"docs/guarantees.md": 2500, "docs/wire.md": 3000, "docs/benchmarks.md": 1500, "docs/how-we-know.md": 1500,
	} {
		match := regexp.MustCompile(`(\d+) ` + regexp.QuoteMeta(page) + "\n").FindSubmatch(out)
		if match == nil {
			t.Errorf("%s isn't counted", page)
			continue
		}
		if words, err := strconv.Atoi(string(match[1])); err != nil || words > most || words == 0 {
			t.Errorf("%s has %d words, want 1 to %d; %v", page, words, most, err)
		}
	}
}

func TestPagesInChineseShowTheSame(t *testing.T) {
	pages := files(t, ".zh-CN.md")
	if len(pages) < 2 {
		t.Errorf("%d pages: the reader does not work", len(pages))
	}
	for _, page := range pages {
		sameShape(t, inEnglish(page), page)
	}
}

func sameShape(t *testing.T, english, chinese string) {
	t.Helper()
	proseA, a := split(read(t, english))
	proseB, b := split(read(t, chinese))
	if len(a) != len(b) {
		t.Errorf("%s has %d blocks, %s %d", english, len(a), chinese, len(b))
	}
	for i := range min(len(a), len(b)) {
		if a[i].text != b[i].text || a[i].language != b[i].language {
			t.Errorf("%s:%d and %s:%d differ", english, a[i].line, chinese, b[i].line)
		}
	}
	if a, b := outline(proseA), outline(proseB); a != b {
		t.Errorf("the outlines of %s and %s differ:\n%s\n%s", english, chinese, a, b)
	}
	if a, b := particulars(proseA), particulars(proseB); !slices.Equal(a, b) {
		t.Errorf("%s and %s have other code or other figures:\n%q\n%q", english, chinese, a, b)
	}
	sameLinks(t, english, chinese)
}

// sameLinks: a page in Chinese leads where the one in English does, and there to the
// page in Chinese if there is one.
func sameLinks(t *testing.T, english, chinese string) {
	t.Helper()
	translations := files(t, ".zh-CN.md")
	var wanted, links []string
	for _, link := range linksOf(t, english) {
		wanted = append(wanted, inEnglish(link))
	}
	for _, link := range linksOf(t, chinese) {
		links = append(links, inEnglish(link))
		page, _, _ := strings.Cut(link, "#")
		if translated := strings.TrimSuffix(page, ".md") + ".zh-CN.md"; page != english && slices.Contains(translations, translated) {
			t.Errorf("%s leads to %s, and there is %s", chinese, page, translated)
		}
	}
	slices.Sort(wanted)
	slices.Sort(links)
	if !slices.Equal(wanted, links) {
		t.Errorf("%s and %s lead elsewhere:\n%q\n%q", english, chinese, wanted, links)
	}
}

func inEnglish(link string) string { return strings.ReplaceAll(link, ".zh-CN.", ".") }

// particular is what a translation doesn't change: code and figures.
var particular = regexp.MustCompile("`[^`]+`|[0-9][0-9,.]*")

func particulars(prose []string) []string {
	text := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(strings.Join(prose, "\n"), "]")
	all := particular.FindAllString(text, -1)
	for i, p := range all {
		if !strings.HasPrefix(p, "`") {
			all[i] = strings.TrimRight(strings.ReplaceAll(p, ",", ""), ".")
		}
	}
	slices.Sort(all)
	return all
}

// outline is the structure without the words: headings, items of lists, rows of
// tables.
func outline(prose []string) string {
	var shape strings.Builder
	for _, line := range prose {
		switch {
		case strings.HasPrefix(line, "#"):
			shape.WriteString("\n" + line[:strings.Index(line, " ")])
		case strings.HasPrefix(line, "|"), strings.HasPrefix(line, "- "):
			shape.WriteString(line[:1])
		}
	}
	return shape.String()
}

// testName may end in "…": then it stands for all that begin so.
var testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+…?`)

// declaredTests are the names of all functions of the repository: some tests are in
// suites.
func declaredTests(t *testing.T) (declared []string) {
	t.Helper()
	for _, file := range files(t, ".go") {
		for _, match := range function.FindAllStringSubmatch(read(t, file), -1) {
			declared = append(declared, match[1])
		}
	}
	return declared
}

var function = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)\(`)

func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	declared := declaredTests(t)
	checked := 0
	for _, document := range files(t, ".md") {
		text := read(t, document)
		for _, at := range testName.FindAllStringIndex(text, -1) {
			checked++
			name := text[at[0]:at[1]]
			start, several := strings.CutSuffix(name, "…")
			several = several || strings.HasSuffix(text[:at[0]], "-run ") || strings.HasPrefix(text[at[1]:], "<")
			meant := func(test string) bool { return test == name || several && strings.HasPrefix(test, start) }
			if !slices.ContainsFunc(declared, meant) {
				t.Errorf("%s: there is no %s", document, name)
			}
		}
	}
	if checked < 100 {
		t.Errorf("the documents name %d tests: the reader does not work", checked)
	}
}

// packages are what the documents call the packages of the kit.
var packages = map[string]string{
	"key": "core/key", "lock": "core/lock", "memstore": "core/memstore", "redisstore": "core/redisstore",
	"rule": "core/rule", "guard": "core/guard", "storetest": "core/storetest",
	"rulefile": "core/rule/rulefile", "rulewatch": "core/rule/rulefile/rulewatch", "telemetry": "core/telemetry",
	"fence": "core/fence", "leader": "core/leader", "quorum": "core/quorum", "guardtest": "core/guard/guardtest",
	"cronlock": "contrib/cronlock", "fiberlock": "contrib/fiberlock", "hertzlock": "contrib/hertzlock", "gocronlock": "contrib/gocronlock",
	"httpguard": "core/guard/httpguard", "ginlock": "ginlock", "httplock": "httplock", "grpclock": "grpclock", "annotations": "annotations", "lockpb": "annotations/lockpb",
	"fxmodule": "fxmodule",
	// As examples call their variables.
	"locker": "core/lock", "lease": "core/lock", "all": "core/lock", "g": "core/guard", "latch": "core/redisstore",
}

var exported = regexp.MustCompile(`\b(key|lock|memstore|redisstore|rule|guard|storetest|rulefile|rulewatch|telemetry|fence|leader|quorum|guardtest|fiberlock|hertzlock|cronlock|gocronlock|httpguard|ginlock|httplock|grpclock|annotations|lockpb|fxmodule|locker|lease|all|g|latch)\.([A-Z]\w+)`)

func TestEveryNameOfTheKitExists(t *testing.T) {
	declared := declaredNames(t)
	for _, document := range files(t, ".md") {
		for _, match := range exported.FindAllStringSubmatch(read(t, document), -1) {
			if !declared[packages[match[1]]+"."+match[2]] {
				t.Errorf("%s: there is no %s", document, match[0])
			}
		}
	}
}

// declaredNames are the exported names of the kit, methods included, as
// "folder.Name".
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range files(t, ".go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", read(t, file), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		note := func(name *ast.Ident) { names[path.Dir(file)+"."+name.Name] = true }
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				note(d.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						note(s.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							note(name)
						}
					}
				}
			}
		}
	}
	return names
}

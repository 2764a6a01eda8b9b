package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/key"
)

var (
	javaBlock = regexp.MustCompile("(?s)```java\n(.*?)```")
	nameRow   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|$")
)

// unusual are names that both sides use as they are.
var unusual = []string{
	"two words", "锁:订单:张三", "😀", "a:b::c", "50%", "a%20b", `"quoted"`, `back\slash`, "*?[a-z]",
	"{tag}:rest", "{user-1}:{order-2}", strings.Repeat("long", 200),
}

// unusualNames hands locks over under names that templates make of the values in
// docs/from-redisson.md, where Java uses the names that the page has for them, and
// under unusual ones.
func unusualNames(w world) {
	_, rows := namesPage(w.T)
	own := w.key() // of this test alone
	template := key.MustParse(own + ":order:<userId>")
	var names []string
	for _, name := range unusual {
		names = append(names, name+":"+own)
	}
	for _, row := range rows {
		name, err := template.Render(key.Vars{"userId": row[1]})
		if java := own + ":order:" + row[2]; err != nil || name != java {
			w.Errorf("Go makes %q (%v) of %q, and Java %q", name, err, row[1], java)
		}
		names = append(names, name)
	}
	for _, name := range names {
		handOverToJava(w, name)
		handOverToGo(w, name)
	}
}

// namesPage reads the chapter about names: its Java code, and the rows of its table.
func namesPage(t *testing.T) (code string, rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/from-redisson.md")
	if err != nil {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(string(page), "\n## Names\n")
	names, _, _ = strings.Cut(names, "\n## ")
	block := javaBlock.FindStringSubmatch(names)
	rows = nameRow.FindAllStringSubmatch(names, -1)
	if block == nil || len(rows) < 10 {
		t.Fatalf("%d rows: the reader does not work", len(rows))
	}
	return block[1], rows
}

// The Java code of docs/from-redisson.md makes the names that its table has. The
// tests of the manual render the same rows in Go.
func TestRedissonNames(t *testing.T) {
	tc := needJava(t)
	code, rows := namesPage(t)
	program := filepath.Join(t.TempDir(), "Names.java")
	if err := os.WriteFile(program, []byte(`
import java.io.*;
import java.nio.charset.StandardCharsets;

class Names {
	public static void main(String[] args) throws IOException {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		for (String line = in.readLine(); line != null; line = in.readLine()) System.out.println(part(line));
	}
	`+code+`
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var values, want strings.Builder
	for _, row := range rows {
		values.WriteString(row[1] + "\n")
		want.WriteString(row[2] + "\n")
	}
	java := exec.CommandContext(t.Context(), tc.java, "-XX:TieredStopAtLevel=1", program)
	java.Stdin, java.Stderr = strings.NewReader(values.String()), os.Stderr
	got, err := java.Output()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v: Java makes\n%s\nwant\n%s", err, got, want.String())
	}
}

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	javaBlock = regexp.MustCompile("(?s)```java\n(.*?)```")
	nameRow   = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|$")
)

// The Java code of docs/from-redisson.md makes the names that its table has. The
// tests of the manual render the same rows in Go.
func TestRedissonNames(t *testing.T) {
	tc := needJava(t)
	page, err := os.ReadFile("../../docs/from-redisson.md")
	if err != nil {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(string(page), "\n## Names\n")
	names, _, _ = strings.Cut(names, "\n## ")
	code, rows := javaBlock.FindStringSubmatch(names), nameRow.FindAllStringSubmatch(names, -1)
	if code == nil || len(rows) < 10 {
		t.Fatalf("%d rows: the reader does not work", len(rows))
	}

	program := filepath.Join(t.TempDir(), "Names.java")
	if err := os.WriteFile(program, []byte(`
import java.io.*;
import java.nio.charset.StandardCharsets;

class Names {
	public static void main(String[] args) throws IOException {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		for (String line = in.readLine(); line != null; line = in.readLine()) System.out.println(part(line));
	}
	`+code[1]+`
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

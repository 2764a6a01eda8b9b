package interop_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/internal/process"
)

// enableEnv switches these tests on. Without it they skip: a plain `go test`
// must not download a hundred megabytes of Java.
const enableEnv = "REDLATCH_INTEROP"

const (
	minJava = 17
	project = "java" // the folder of the Maven project
)

var mavenSays = regexp.MustCompile(`Java version: (\d+).*runtime: (.*)`)

// toolchain is a JDK, and the Maven that runs on it.
type toolchain struct{ maven, java string }

// needJava finds the toolchain. With [enableEnv] set, a missing one fails the
// test.
func needJava(t *testing.T) toolchain {
	t.Helper()
	if os.Getenv(enableEnv) != "1" {
		t.Skip("\n\n*** SKIPPED, NOT TESTED: Redisson; run make test-interop ***\n\n")
	}
	maven := process.Look("mvn")
	if maven == "" {
		t.Fatal("Maven is not installed: run scripts/install-java.sh (make test-interop does)")
	}
	says, err := exec.CommandContext(t.Context(), maven, "-B", "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("mvn --version: %v\n%s", err, says)
	}
	found := mavenSays.FindSubmatch(says)
	if found == nil {
		t.Fatalf("mvn --version does not name a JDK:\n%s", says)
	}
	if version, _ := strconv.Atoi(string(found[1])); version < minJava {
		t.Fatalf("Maven runs on Java %d, want %d or later: set JAVA_HOME", version, minJava)
	}
	return toolchain{maven: maven, java: filepath.Join(string(found[2]), "bin", "java")}
}

// build makes the agent with that version of Redisson, unless there is one that is newer than
// its sources, and returns its jar. Maven needs the network for that once.
func (tc toolchain) build(t *testing.T, version string) (jar string) {
	t.Helper()
	jar = filepath.Join(project, "target", version, "agent.jar")
	if info, err := os.Stat(jar); err == nil && info.ModTime().After(newestSource(t)) {
		return jar
	}
	t.Logf("building %s", jar)
	if err := os.RemoveAll(filepath.Dir(jar)); err != nil {
		t.Fatal(err)
	}
	mvn := exec.CommandContext(t.Context(), tc.maven, "-q", "-B", "-Dredisson.version="+version, "package")
	mvn.Dir = project
	if says, err := mvn.CombinedOutput(); err != nil {
		t.Fatalf("mvn package: %v\n%s", err, says)
	}
	return jar
}

func newestSource(t *testing.T) (newest time.Time) {
	t.Helper()
	for _, root := range []string{"pom.xml", "src"} {
		err := filepath.WalkDir(filepath.Join(project, root), func(_ string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.ModTime().After(newest) {
				newest = info.ModTime()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return newest
}

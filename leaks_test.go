package redlatch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every package whose tests could leave a goroutine behind looks for it when
// they have ended.
func TestEveryPackageLooksForLeaks(t *testing.T) {
	tested, looking := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return nil
		}
		code, err := os.ReadFile(path)
		folder := filepath.Dir(path)
		tested[folder] = true
		looking[folder] = looking[folder] || strings.Contains(string(code), "goleak.") || strings.Contains(string(code), "leak.Main(m)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(tested, ".") // it only reads files
	if len(tested) < 10 {
		t.Fatalf("%d packages with tests: the reader does not work", len(tested))
	}
	for folder := range tested {
		if !looking[folder] {
			t.Errorf("%s does not use goleak, or leak.Main, in its TestMain", folder)
		}
	}
}

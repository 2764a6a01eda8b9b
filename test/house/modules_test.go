package house_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// required is what the modules that users fetch may require of others, indirect
// requirements aside. Users inherit each of them, so a new one has to be written down
// here. Programs aren't listed: nobody imports them.
var required = map[string][]string{
	".":                  {"github.com/redis/go-redis/v9", "go.yaml.in/yaml/v4", "github.com/fsnotify/fsnotify"},
	"core/telemetry":     {"go.opentelemetry.io/otel"},
	"ginlock":            {"github.com/gin-gonic/gin"},
	"annotations/lockpb": {"google.golang.org/protobuf"},
	"grpclock":           {"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc"},
	"fxmodule": {
		"go.uber.org/fx", "go.uber.org/dig", "github.com/redis/go-redis/v9", "go.opentelemetry.io/otel", "go.yaml.in/yaml/v4",
	},
	"contrib/cronlock":   {"github.com/robfig/cron/v3"},
	"contrib/fiberlock":  {"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"},
	"contrib/hertzlock":  {"github.com/cloudwego/hertz"},
	"contrib/pgxlisten":  {"github.com/jackc/pgx/v5"},
	"contrib/gocronlock": {"github.com/go-co-op/gocron/v2", "github.com/google/uuid", "github.com/jonboulle/clockwork"},
}

// forTests is what the tests of all of them need.
const forTests = "go.uber.org/goleak"

func TestModulesRequireWhatIsWrittenDown(t *testing.T) {
	for folder, allowed := range required {
		name := filepath.Join(folder, "go.mod")
		content, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		mod, err := modfile.Parse(name, content, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range mod.Require {
			path := r.Mod.Path
			if r.Indirect || path == forTests || below(modulePath, path) {
				continue
			}
			if !slices.ContainsFunc(allowed, func(prefix string) bool { return below(prefix, path) }) {
				t.Errorf("%s requires %s: its users would inherit it", name, path)
			}
		}
	}
}

// A folder that isn't in go.work, nor in the Makefile by that, is neither tested nor
// published.
func TestModulesAreAllInTheWorkspace(t *testing.T) {
	content, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	work, err := modfile.ParseWork("go.work", content, nil)
	if err != nil {
		t.Fatal(err)
	}
	listed := []string{"tools"} // apart: what tools need is no version for others
	for _, use := range work.Use {
		listed = append(listed, filepath.Clean(use.Path))
	}
	var found []string
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod", "*/*/*/go.mod", "*/*/*/*/go.mod"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasPrefix(file, ".") || file == "go.mod" {
				found = append(found, filepath.Dir(file))
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(found)
	if !slices.Equal(found, listed) {
		t.Errorf("go.work and tools are %q, there are %q", listed, found)
	}
}

// The first entries of the repository are for users: what tests and tools need is below
// their folders.
func TestTheRootHasNoTests(t *testing.T) {
	for _, pattern := range []string{"*_test.go", "buf*.yaml"} {
		if files, err := filepath.Glob(pattern); err != nil || len(files) > 0 {
			t.Errorf("%v in the root, %v", files, err)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlatch/redlatch/test/internal/process"
)

// machineName is the file that says where figures come from.
const machineName = "machine.md"

// serverKind is a kind of server, and the names of its program.
type serverKind struct {
	name     string
	programs []string
}

var redisServer = serverKind{"Redis", []string{"redis-server"}}

// software is what a run measures.
type software struct {
	servers []serverKind
	mode    string
	modules []string
}

var (
	redisAlone = software{
		[]serverKind{redisServer},
		"without persistence",
		[]string{"github.com/redis/go-redis/v9", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock", "github.com/redis/rueidis"},
	}
	databases = software{
		[]serverKind{{"PostgreSQL", []string{"postgres"}}, {"MariaDB", []string{"mariadbd", "mysqld"}}, redisServer},
		"flushing each commit",
		[]string{
			"github.com/jackc/pgx/v5", "github.com/go-sql-driver/mysql", "modernc.org/sqlite", "github.com/redis/go-redis/v9", "cirello.io/pglock",
		},
	}
)

// saveMachine describes the machine as it is when a run begins.
func (o *options) saveMachine(ctx context.Context, windows string, of software) error {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	lines := []string{
		fmt.Sprintf("%s; rounds: %d%s", time.Now().UTC().Format(time.DateOnly), o.rounds(), windows),
		fmt.Sprintf("%d × %s, %s %s", runtime.NumCPU(), processor(), unix.ByteSliceToString(name.Sysname[:]), series(unix.ByteSliceToString(name.Release[:]))),
		fmt.Sprintf("load average when the run began: %s (the run itself makes about %d)", loadAverage(), runtime.NumCPU()),
		of.versions(ctx), runtime.Version(), of.libraries(),
	}
	return os.WriteFile(filepath.Join(o.Dir, machineName), []byte("- "+strings.Join(lines, "\n- ")+"\n"), 0o644)
}

// series is the part of a kernel's release that says something to others: what
// follows is the packager's.
func series(release string) string {
	parts := strings.SplitN(release, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// processor is the model that the kernel names.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // not there on all systems
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadAverage is the average number of processes that wanted to run in the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// versions are those of the servers.
func (s software) versions(ctx context.Context) string {
	var all []string
	for _, kind := range s.servers {
		number := "of unknown version"
		for _, program := range kind.programs {
			text, _ := exec.CommandContext(ctx, process.Look(program), "--version").Output() // empty where it isn't there
			if found := versionNumber.Find(text); found != nil {
				number = string(found)
				break
			}
		}
		all = append(all, kind.name+" "+number)
	}
	return strings.Join(all, ", ") + ", " + s.mode + ", on loopback, sharing the processors"
}

// libraries are the versions of the modules that are built in.
func (s software) libraries() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "libraries of unknown versions"
	}
	var names []string
	for _, module := range info.Deps {
		if slices.Contains(s.modules, module.Path) {
			names = append(names, strings.TrimPrefix(module.Path, "github.com/")+" "+module.Version)
		}
	}
	return strings.Join(names, ", ")
}

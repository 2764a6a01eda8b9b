package rulewatch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/memstore"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/core/rule/rulefile/rulewatch"
)

// follower keeps what a watcher reports.
type follower struct {
	mu     sync.Mutex
	sets   [][]string // the operations of every set that was applied
	errs   []error
	refuse error // what apply returns
}

func (f *follower) apply(set *rule.Set) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	var operations []string
	for _, r := range set.Rules() {
		operations = append(operations, r.Operation)
	}
	f.sets = append(f.sets, operations)
	return nil
}

func (f *follower) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *follower) deny(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = err
}

// state is the rules in force, how often rules came, and what went wrong.
func (f *follower) state() (rules string, applied int, errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.sets); n > 0 {
		rules = strings.Join(f.sets[n-1], " ")
	}
	return rules, len(f.sets), f.errs
}

// follow starts a watcher that polls rarely enough for a test to distinguish events from
// polling, unless the options say otherwise.
func follow(t *testing.T, path string, opts ...rulewatch.Option) *follower {
	t.Helper()
	f := &follower{}
	opts = append([]rulewatch.Option{
		rulewatch.WithLogger(slog.New(slog.DiscardHandler)), rulewatch.WithOnError(f.failed), rulewatch.WithPoll(time.Hour),
	}, opts...)
	w := rulewatch.Start(path, f.apply, opts...)
	t.Cleanup(w.Close)
	return f
}

// eventually waits until the rules in force are those.
func (f *follower) eventually(t *testing.T, want string) {
	t.Helper()
	until(t, func() bool { rules, _, _ := f.state(); return rules == want }, func() string { return fmt.Sprint(f.state()) })
}

// eventuallyFails waits for the n-th error.
func (f *follower) eventuallyFails(t *testing.T, n int) error {
	t.Helper()
	until(t, func() bool { _, _, errs := f.state(); return len(errs) >= n }, func() string { return fmt.Sprint(f.state()) })
	_, _, errs := f.state()
	return errs[n-1]
}

func until(t *testing.T, ok func() bool, state func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("does not happen; there is %s", state())
		}
	}
}

// text is a rule file with those operations.
func text(operations ...string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for _, operation := range operations {
		fmt.Fprintf(&b, "- operation: %s\n  key: lock:%s\n", operation, operation)
	}
	return b.String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// replace puts a complete file into the place of the one before.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	rename(t, path+".new", path)
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Skipf("this system has no symbolic links: %v", err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// file is a new rule file in a new folder.
func file(t *testing.T, operations ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "locks.yaml")
	write(t, path, text(operations...))
	return path
}

func TestStartAppliesTheFileBeforeItReturns(t *testing.T) {
	f := follow(t, file(t, "a", "b"))
	if rules, applied, errs := f.state(); rules != "a b" || applied != 1 || len(errs) != 0 {
		t.Errorf("got %q, %d times, %v", rules, applied, errs)
	}
}

func TestChangesAreNoticed(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"written in place":    func(t *testing.T, path string) { t.Helper(); write(t, path, text("b")) },
		"replaced by another": func(t *testing.T, path string) { t.Helper(); replace(t, path, text("b")) },
		"saved by an editor that keeps a copy": func(t *testing.T, path string) {
			t.Helper()
			rename(t, path, path+"~")
			write(t, path, text("b"))
		},
		"deleted and written again": func(t *testing.T, path string) {
			t.Helper()
			remove(t, path)
			write(t, path, text("b"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, "a")
			f := follow(t, path)
			change(t, path)
			f.eventually(t, "b")
			write(t, path, text("b", "c")) // what follows is noticed as well
			f.eventually(t, "b c")
		})
	}
}

// Kubernetes links the file to ..data, and ..data to a folder with a new name for
// every version of the ConfigMap.
func TestConfigMapsAreFollowed(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	publish := func(version string, operations ...string) {
		mkdir(t, at(version))
		write(t, filepath.Join(at(version), "locks.yaml"), text(operations...))
		link(t, version, at("..data_tmp"))
		rename(t, at("..data_tmp"), at("..data"))
	}
	publish("..1", "a")
	link(t, filepath.Join("..data", "locks.yaml"), at("locks.yaml"))
	f := follow(t, at("locks.yaml"))
	f.eventually(t, "a")
	publish("..2", "b")
	remove(t, at("..1"))
	f.eventually(t, "b")
	publish("..3", "c")
	remove(t, at("..2"))
	f.eventually(t, "c")
	if _, applied, errs := f.state(); applied != 3 || len(errs) != 0 {
		t.Errorf("applied %d times, %v", applied, errs)
	}
}

func TestLinkedFilesAreFollowedWhereTheyAre(t *testing.T) {
	there, other := file(t, "a"), file(t, "b")
	here := filepath.Join(t.TempDir(), "locks.yaml")
	link(t, there, here)
	f := follow(t, here)
	f.eventually(t, "a")
	write(t, there, text("a", "a2"))
	f.eventually(t, "a a2")
	remove(t, here)
	link(t, other, here)
	f.eventually(t, "b")
	write(t, other, text("b", "b2"))
	f.eventually(t, "b b2")
}

// A link on the way may be to a folder above the file, or be one that the file's own
// link leads to.
func TestALinkOnTheWayIsFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		own  string // where path is a link to, if it is one
		link string // the one that changes
		to   string // its targets, but for their number
		here bool   // the path is relative
	}{
		"to the folder":       {path: "current/locks.yaml", link: "current", to: "release"},
		"to a folder above":   {path: "current/etc/locks.yaml", link: "current", to: "release"},
		"behind a link":       {path: "locks.yaml", own: "middle/data/locks.yaml", link: "middle/data", to: "../release"},
		"behind a whole path": {path: "locks.yaml", own: "/middle/data/locks.yaml", link: "middle/data", to: "../release"},
		"of a relative path":  {path: "current/etc/locks.yaml", link: "current", to: "release", here: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
			mkdir(t, at("middle"))
			for _, release := range []string{"1", "2"} {
				mkdir(t, at("release"+release))
				mkdir(t, at("release"+release+"/etc"))
				write(t, at("release"+release+"/locks.yaml"), text("r"+release))
				write(t, at("release"+release+"/etc/locks.yaml"), text("r"+release))
			}
			link(t, filepath.FromSlash(test.to+"1"), at(test.link))
			switch {
			case strings.HasPrefix(test.own, "/"):
				link(t, at(test.own), at(test.path))
			case test.own != "":
				link(t, filepath.FromSlash(test.own), at(test.path))
			}
			path := at(test.path)
			if test.here {
				t.Chdir(dir)
				path = filepath.FromSlash(test.path)
			}
			f := follow(t, path)
			f.eventually(t, "r1")
			for _, release := range []string{"2", "1", "2"} {
				link(t, filepath.FromSlash(test.to+release), at(test.link+".new"))
				rename(t, at(test.link+".new"), at(test.link))
				f.eventually(t, "r"+release)
			}
		})
	}
}

// A target may lead through another link and up again: behind that link ".." is above what
// it leads to.
func TestALinkThroughAnotherAndUpAgainIsFollowed(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, release := range []string{"1", "2"} {
		mkdir(t, at("release"+release))
		mkdir(t, at("release"+release+"/bin"))
		write(t, at("release"+release+"/locks.yaml"), text("r"+release))
	}
	mkdir(t, at("app"))
	mkdir(t, at("etc"))
	link(t, filepath.FromSlash("../release1/bin"), at("etc/current"))
	link(t, filepath.FromSlash("../etc/current/../locks.yaml"), at("app/locks.yaml"))
	f := follow(t, at("app/locks.yaml"))
	f.eventually(t, "r1")
	link(t, filepath.FromSlash("../release2/bin"), at("etc/new"))
	rename(t, at("etc/new"), at("etc/current"))
	f.eventually(t, "r2")
}

// The kernel watches a limited number of folders for a user.
func TestOnlyTheFoldersOnTheWayAreWatched(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	publish := func(release string) {
		mkdir(t, at(release))
		write(t, filepath.Join(at(release), "locks.yaml"), text(release))
		link(t, release, at("new"))
		rename(t, at("new"), at("current"))
	}
	publish("r0")
	f := follow(t, filepath.Join(at("current"), "locks.yaml"))
	before := watched(t)
	for i := range 5 {
		release := fmt.Sprint("r", i+1)
		publish(release)
		f.eventually(t, release)
	}
	if now := watched(t); now != before {
		t.Errorf("%d folders are watched, and %d at the start", now, before)
	}
}

// watched is how many files and folders the kernel watches for this process.
func watched(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil || len(files) == 0 {
		t.Skip("this system does not say what is watched")
	}
	count := 0
	for _, file := range files {
		if info, err := os.ReadFile(file); err == nil { // it may be closed by now
			count += strings.Count(string(info), "inotify wd:")
		}
	}
	return count
}

func TestALinkThatLeadsToItselfIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	link(t, "other.yaml", path)
	link(t, "locks.yaml", filepath.Join(filepath.Dir(path), "other.yaml"))
	f := follow(t, path)
	_ = f.eventuallyFails(t, 1)
	replace(t, path, text("a"))
	f.eventually(t, "a")
}

func TestABadFileChangesNothingUntilItIsGood(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	replace(t, path, "rules:\n- operation: b\n  kye: lock:b\n")
	err := f.eventuallyFails(t, 1)
	if !errors.Is(err, rule.ErrInvalid) || !strings.Contains(err.Error(), path+":3:3") {
		t.Errorf("got %v, want the line of the fault", err)
	}
	replace(t, path, "rules:\n- operation: b\n")
	_ = f.eventuallyFails(t, 2)
	if rules, applied, _ := f.state(); rules != "a" || applied != 1 {
		t.Errorf("a bad file was applied: %q, %d times", rules, applied)
	}
	replace(t, path, text("b"))
	f.eventually(t, "b")
}

func TestAFileThatIsGoneChangesNothingUntilItIsBack(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	remove(t, path)
	if err := f.eventuallyFails(t, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	replace(t, path, text("b"))
	f.eventually(t, "b")
}

func TestAnotherErrorIsReported(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	remove(t, path)
	if err := f.eventuallyFails(t, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	mkdir(t, path)
	if err := f.eventuallyFails(t, 2); errors.Is(err, fs.ErrNotExist) || errors.Is(err, rule.ErrInvalid) {
		t.Errorf("got %v, want the error of a folder", err)
	}
}

func TestAFileMayAppearLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.yaml")
	f := follow(t, path)
	if err := f.eventuallyFails(t, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	replace(t, path, text("a"))
	f.eventually(t, "a")
}

func TestManyQuickChangesEndWithTheLast(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	const changes = 300
	for i := range changes {
		replace(t, path, text(fmt.Sprint("n", i)))
	}
	f.eventually(t, fmt.Sprint("n", changes-1))
	if _, applied, errs := f.state(); applied > changes/2 || len(errs) != 0 {
		t.Errorf("applied %d times, %v", applied, errs)
	}
}

func TestOnlyOtherRulesAreApplied(t *testing.T) {
	path := file(t, "a")
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f := follow(t, path, rulewatch.WithLogger(logger))
	write(t, filepath.Join(filepath.Dir(path), "other.yaml"), text("z"))
	replace(t, path, "# a comment\n"+text("a"))
	until(t, func() bool { return strings.Contains(log.String(), "the same as before") }, log.String)
	replace(t, path, text("b"))
	f.eventually(t, "b")
	if _, applied, errs := f.state(); applied != 2 || len(errs) != 0 {
		t.Errorf("applied %d times, want 2; %v", applied, errs)
	}
}

func TestTheSameErrorIsToldOnce(t *testing.T) {
	path := file(t, "a")
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f := follow(t, path, rulewatch.WithLogger(logger))
	replace(t, path, "rules: none\n")
	_ = f.eventuallyFails(t, 1)
	replace(t, path, "rules: none # edited\n")
	until(t, func() bool { return strings.Contains(log.String(), "still cannot be used") }, log.String)
	replace(t, path, text("a")) // the rules in force, but the file was bad before
	until(t, func() bool { return strings.Count(log.String(), "in force") == 2 }, log.String)
	if _, _, errs := f.state(); len(errs) != 1 {
		t.Errorf("reported the same error %d times: %v", len(errs), errs)
	}
	replace(t, path, "rules: none\n")
	_ = f.eventuallyFails(t, 2)
}

// What copies files may keep their dates, and archives may have one date for all.
func TestAVersionOfTheSameSizeAndDateIsNoticed(t *testing.T) {
	ways := map[string]func(t *testing.T, path string){
		"replaced by another":       func(t *testing.T, path string) { t.Helper(); rename(t, path+".new", path) },
		"written in place":          func(*testing.T, string) {},
		"deleted and written again": func(t *testing.T, path string) { t.Helper(); remove(t, path) },
	}
	for name, way := range ways {
		for noticed, opts := range map[string][]rulewatch.Option{
			"by an event": nil,
			"by polling":  {rulewatch.WithoutEvents(), rulewatch.WithPoll(10 * time.Millisecond)},
		} {
			t.Run(name+" "+noticed, func(t *testing.T) {
				path, date := file(t, "a"), time.Unix(1e9, 0)
				dated := func(path, content string) {
					write(t, path, content)
					if err := os.Chtimes(path, date, date); err != nil {
						t.Fatal(err)
					}
				}
				dated(path, text("a"))
				f := follow(t, path, opts...)
				dated(path+".new", text("b"))
				way(t, path)
				dated(path, text("b"))
				f.eventually(t, "b")
			})
		}
	}
}

// Another file of the folder, such as a log, changes all the time.
func TestAVersionIsNoticedInABusyFolder(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	done := make(chan struct{})
	var busy sync.WaitGroup
	defer busy.Wait()
	defer close(done)
	busy.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case at := <-tick.C:
				_ = os.WriteFile(path+".log", []byte(at.String()), 0o600)
			}
		}
	})
	for _, rules := range []string{"b", "c"} {
		write(t, path, text(rules))
		f.eventually(t, rules)
	}
}

func TestAnErrorOfApplyIsToldOnceAndTheFileTriedWhenItChanges(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path)
	refused := errors.New("no such route")
	f.deny(refused)
	replace(t, path, text("b"))
	if err := f.eventuallyFails(t, 1); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	f.deny(nil)
	replace(t, path, "# again\n"+text("b"))
	f.eventually(t, "b")
	if _, _, errs := f.state(); len(errs) != 1 {
		t.Errorf("reported %v", errs)
	}
}

func TestPollingDoesWithoutEvents(t *testing.T) {
	path := file(t, "a")
	f := follow(t, path, rulewatch.WithoutEvents(), rulewatch.WithPoll(10*time.Millisecond))
	replace(t, path, text("a", "b"))
	f.eventually(t, "a b")
	remove(t, path)
	_ = f.eventuallyFails(t, 1)
	replace(t, path, text("c"))
	f.eventually(t, "c")
	if _, _, errs := f.state(); len(errs) != 1 {
		t.Errorf("reported one error as %v", errs)
	}
}

func TestTheFileIsCheckedAsOftenAsThePollSays(t *testing.T) {
	for poll, want := range map[time.Duration]time.Duration{
		time.Minute: time.Minute, 0: rulewatch.DefaultPoll, -time.Hour: rulewatch.DefaultPoll,
	} {
		synctest.Test(t, func(t *testing.T) {
			path := file(t, "a")
			f := &follower{}
			w := rulewatch.Start(path, f.apply, rulewatch.WithoutEvents(), rulewatch.WithPoll(poll), rulewatch.WithLogger(slog.New(slog.DiscardHandler)))
			defer w.Close()
			write(t, path, text("b"))
			time.Sleep(want - time.Millisecond)
			if rules, _, _ := f.state(); rules != "a" {
				t.Errorf("WithPoll(%v): after less than %v there is %q", poll, want, rules)
			}
			time.Sleep(time.Second) // then the file has to stay as it is for a moment
			synctest.Wait()
			if rules, _, _ := f.state(); rules != "b" {
				t.Errorf("WithPoll(%v): after %v there is %q", poll, want+time.Second, rules)
			}
		})
	}
}

// What refuses a version may be expensive, such as a guard with thousands of operations.
func TestAVersionIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, calls := file(t, "a"), 0
		w := rulewatch.Start(path, func(*rule.Set) error {
			calls++
			return errors.New("no such route")
		}, rulewatch.WithoutEvents(), rulewatch.WithPoll(time.Second), rulewatch.WithLogger(slog.New(slog.DiscardHandler)))
		defer w.Close()
		for version := range 3 {
			write(t, path, strings.Repeat("# edited\n", version)+text("a"))
			time.Sleep(time.Minute)
			synctest.Wait()
			if calls != version+1 {
				t.Errorf("version %d: %d calls", version, calls)
			}
		}
	})
}

func TestAFolderMayComeAndGo(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "conf")
	mkdir(t, folder)
	path := filepath.Join(folder, "locks.yaml")
	replace(t, path, text("a"))
	f := follow(t, path, rulewatch.WithPoll(10*time.Millisecond))
	remove(t, folder)
	_ = f.eventuallyFails(t, 1)
	mkdir(t, folder)
	replace(t, path, text("b"))
	f.eventually(t, "b")
}

func TestAFileThatCannotBeReadIsTriedAgain(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	path := file(t, "a")
	f := follow(t, path, rulewatch.WithPoll(10*time.Millisecond))
	write(t, path+".new", text("b"))
	if err := os.Chmod(path+".new", 0); err != nil {
		t.Fatal(err)
	}
	rename(t, path+".new", path)
	if err := f.eventuallyFails(t, 1); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want ErrPermission", err)
	}
	if err := os.Chmod(path, 0o600); err != nil { // changes neither size nor date
		t.Fatal(err)
	}
	f.eventually(t, "b")
}

func TestTheLogSaysWhatHappens(t *testing.T) {
	path := file(t, "a")
	var log lockedBuffer
	w := rulewatch.Start(path, (&follower{}).apply, rulewatch.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	defer w.Close()
	if text := log.String(); !strings.Contains(text, "level=INFO") || !strings.Contains(text, "rules=1") || !strings.Contains(text, path) {
		t.Errorf("logged %s", text)
	}
	replace(t, path, "rules:\n- operation: b\n")
	until(t, func() bool { return strings.Contains(log.String(), "level=ERROR") }, log.String)
	if text := log.String(); !strings.Contains(text, path+":2:3") || !strings.Contains(text, "key: is missing") {
		t.Errorf("logged %s", text)
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestCloseWaitsForApplyAndMayBeRepeated(t *testing.T) {
	path := file(t, "a")
	entered, leave := make(chan struct{}), make(chan struct{})
	calls, finished := 0, false
	w := rulewatch.Start(path, func(*rule.Set) error {
		if calls++; calls == 2 {
			close(entered)
			<-leave
			time.Sleep(50 * time.Millisecond) // the longer, the surer a Close that does not wait is caught
			finished = true
		}
		return nil
	}, rulewatch.WithLogger(slog.New(slog.DiscardHandler)))
	replace(t, path, text("b"))
	<-entered
	var both sync.WaitGroup
	for range 2 {
		both.Go(w.Close)
	}
	close(leave)
	both.Wait()
	if !finished {
		t.Error("Close returned before apply did")
	}
	w.Close()
	replace(t, path, text("c"))
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// A file that a guard refuses: the error names the operation and its line, or the
// line that it had before.
func TestRefusedRulesHaveTheirLines(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
	g.Serve("a test", "orders", "refunds")
	path := filepath.Join(t.TempDir(), "locks.yaml")
	write(t, path, text("orders", "refunds"))
	f := &follower{}
	w := rulewatch.Start(path, func(set *rule.Set) error {
		if err := g.Replace(set.Rules(), set.Unlocked()...); err != nil {
			return fmt.Errorf("mine: %w", err)
		}
		return g.Validate()
	}, rulewatch.WithLogger(slog.New(slog.DiscardHandler)), rulewatch.WithOnError(f.failed))
	t.Cleanup(w.Close)
	for i, test := range []struct{ file, want string }{
		{text("odrers", "refunds"), path + `:2:14: "odrers": has a rule, and nothing serves it, did you mean "orders"?`},
		{text("refunds"), path + `: "orders": would have no rule any longer`},
		{text("orders", "refuns"), path + `:4:14: "refuns": has a rule, and nothing serves it, did you mean "refunds"?`},
		{text("orders"), `; keep its rule, or list it under unlocked (it was in line 4 of the version before)`},
	} {
		write(t, path, test.file)
		if err := f.eventuallyFails(t, i+1); !strings.Contains(err.Error(), test.want) || !errors.Is(err, rule.ErrInvalid) {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

// A version with the same rules has them in other lines.
func TestTheLineBeforeIsThatOfTheLastVersion(t *testing.T) {
	g := guard.Must(guard.New(guardtest.Locker(t, memstore.New()))).WithLogger(slog.New(slog.DiscardHandler))
	g.Serve("a test", "orders", "refunds")
	path := file(t, "orders", "refunds")
	f := &follower{}
	var log lockedBuffer
	w := rulewatch.Start(path, func(set *rule.Set) error {
		if err := g.Replace(set.Rules(), set.Unlocked()...); err != nil {
			return err
		}
		return g.Validate()
	}, rulewatch.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))), rulewatch.WithOnError(f.failed))
	t.Cleanup(w.Close)
	replace(t, path, "# a comment\n"+text("orders", "refunds"))
	until(t, func() bool { return strings.Contains(log.String(), "the same as before") }, log.String)
	replace(t, path, text("orders"))
	if err := f.eventuallyFails(t, 1); !strings.Contains(err.Error(), "(it was in line 5 of the version before)") {
		t.Errorf("got %v, want line 5", err)
	}
}

func TestANilOptionIsNamed(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); said != "rulewatch.Start: an option is nil" {
			t.Errorf("panic %q", said)
		}
	}()
	rulewatch.Start("locks.yaml", func(*rule.Set) error { return nil }, nil)
}

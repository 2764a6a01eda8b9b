package browser_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/redlatch/redlatch/test/internal/process"
)

// axe finds what people with disabilities can't use. It is embedded in the tests only.
//
//go:embed testdata/axe/axe.min.js
var axe string

func TestTheStage(t *testing.T) {
	browser := chromium(t)
	binary := build(t)
	for name, test := range map[string]func(*tab, *service){
		"a crowd breaks the lane without a guard, and no other":    crowdBreaksOne,
		"a double click is two orders, or a refusal":               doubleClicks,
		"a paused holder writes late, unless the fence is checked": pausesAHolder,
		"without the lock store nothing is sold under a lock":      stopsTheStore,
		"the user of a dead instance is served":                    killsAnInstance,
		"each number leads to its line of code":                    linksToCode,
		"a run is a file that plays without the service":           replays,
		"fits every screen, from a phone to a wide one":            fitsEveryScreen,
		"works by keyboard alone, button by button":                stageByKeyboard,
		"speaks Chinese where that is preferred":                   stageInChinese,
		"axe finds nothing, in light and in dark":                  axeFindsNothing,
	} {
		t.Run(name, func(t *testing.T) {
			test(newTab(t, browser), serveStage(t, binary))
		})
	}
}

// serveStage starts a service with nothing set, which has a stage.
func serveStage(t *testing.T, binary string) *service {
	t.Helper()
	s := &service{binary: binary, folder: t.TempDir(), address: process.LoopbackAddr(process.Port(t))}
	var err error
	s.running, err = process.Start(process.Spec{
		Path: s.binary, Args: []string{"serve", "--http", s.address, "--drain-delay=0s"}, Log: filepath.Join(s.folder, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.running.Shutdown(syscall.SIGTERM, patience) })
	if err := s.running.Await(patience, func() error {
		connection, err := net.Dial("tcp", s.address)
		if err != nil {
			return err
		}
		return connection.Close()
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// enter opens the page, and waits until the crowd that comes by itself has gone.
func (tb *tab) enter(s *service, query string) {
	tb.t.Helper()
	tb.visit(s.url() + query)
	tb.quiet()
}

// crowded says that a crowd has been there and nothing is under way.
const crowded = `/crowd: |一群人：/.test(document.getElementById("stage-status").textContent) && document.querySelector("#stage [aria-disabled]") === null`

func (tb *tab) quiet() {
	tb.t.Helper()
	tb.await(crowded)
}

// press clicks a button of the stage and waits until what it leads to is over.
func (tb *tab) press(button, until string) {
	tb.t.Helper()
	tb.quiet()
	tb.do(chromedp.Click(button))
	tb.await(until)
	tb.quiet()
}

// verdicts checks which lanes are broken, as the page says in words and in color.
func (tb *tab) verdicts(broken ...string) {
	tb.t.Helper()
	for _, lane := range []string{"nothing", "lock", "fence"} {
		want := slices.Contains(broken, lane)
		got := read[bool](tb, fmt.Sprintf(`document.getElementById("verdict-%s").classList.contains("broken")`, lane))
		text := tb.text("verdict-" + lane)
		if got != want || strings.HasPrefix(text, "✗") != want || !strings.Contains(text, "Read from the database at") {
			tb.t.Errorf("%s: broken %v, want %v: %s", lane, got, want, text)
		}
	}
}

// scene says that the scene of a button has come to a moment in each lane.
func scene(moments string) string {
	return fmt.Sprintf(`document.querySelectorAll("#scene .steps").length === 3 && /%s/.test(document.getElementById("scene").textContent)`, moments)
}

const small = "?users=120&clicks=3&stock=60&seed=7"

func crowdBreaksOne(tb *tab, s *service) {
	tb.enter(s, small)
	tb.verdicts("nothing")
	tb.awaitText("sold-lock", "^60 of 60$")
	tb.awaitText("sold-fence", "^60 of 60$")
	tb.awaitText("stage-status", "seed 7")
	tb.awaitText("latency-fence", "ms$")
	tb.awaitText("answers-fence", "another click of the user is under way")
	tb.awaitText("log", "The crowd has clicked 360 times")
	if n := read[int](tb, `document.querySelectorAll("#chart canvas").length`); n != 1 {
		tb.t.Errorf("%d charts", n)
	}
	tb.press("#send", `!/seed 7\./.test(document.getElementById("stage-status").textContent)`)
	tb.verdicts("nothing")
}

func doubleClicks(tb *tab, s *service) {
	tb.enter(s, "?users=10&clicks=1&stock=100&seed=1")
	tb.verdicts()
	tb.press("#double", scene("another click of the user is under way"))
	tb.verdicts("nothing")
}

func pausesAHolder(tb *tab, s *service) {
	tb.enter(s, "?users=10&clicks=1&stock=100&seed=1")
	tb.press("#pause", scene("its fence is older"))
	tb.verdicts("nothing", "lock")
	tb.awaitText("late-fence", "^1$")
	tb.awaitText("scene", "its lease ends, before its key does")
	tb.awaitText("log", "the database refused a late write")
}

func stopsTheStore(tb *tab, s *service) {
	tb.enter(s, small)
	tb.press("#locks-button", `document.getElementById("locks-button").getAttribute("aria-pressed") === "true"`)
	tb.awaitText("stage-status", "The lock store is stopped")
	tb.press("#send", `/^0 of/.test(document.getElementById("sold-fence").textContent)`)
	tb.awaitText("answers-fence", "the lock store doesn't answer")
	tb.verdicts("nothing")
	tb.press("#locks-button", `document.getElementById("locks-button").getAttribute("aria-pressed") === "false"`)
	tb.press("#send", `/^60 of/.test(document.getElementById("sold-fence").textContent)`)
	tb.verdicts("nothing")
}

func killsAnInstance(tb *tab, s *service) {
	tb.enter(s, small)
	tb.press("#kill", scene("is killed.*another click of the user is under way.*gets the lock.*ordered"))
	tb.awaitText("kill", "Start instance 2")
	tb.press("#send", `/^60 of/.test(document.getElementById("sold-fence").textContent) && /instance is dead/.test(document.getElementById("answers-fence").textContent)`)
	tb.verdicts("nothing")
	tb.press("#kill", `document.getElementById("kill").textContent === "Kill instance 2"`)
}

func linksToCode(tb *tab, s *service) {
	tb.enter(s, small)
	links := read[[]string](tb, `[...new Set([...document.querySelectorAll("#stage a[href*=code]")].map(a => a.href))]`)
	if len(links) < 8 {
		tb.t.Errorf("%d links: %q", len(links), links)
	}
	for _, link := range links {
		tb.do(chromedp.Navigate(link))
		if line := read[string](tb, `document.querySelector(":target")?.textContent ?? ""`); len(strings.TrimSpace(line)) < 10 {
			tb.t.Errorf("%s leads to %q", link, line)
		}
	}
}

func replays(tb *tab, s *service) {
	tb.enter(s, small)
	tb.press("#pause", scene("its fence is older"))
	tb.do(chromedp.Evaluate[chromedp.Void](`fetch("stage/recording").then(a => a.text()).then(text => window.recorded = text)`))
	tb.await(`window.recorded?.length > 1000`)
	file := filepath.Join(tb.t.TempDir(), "run.json")
	if err := os.WriteFile(file, []byte(read[string](tb, "window.recorded")), 0o600); err != nil {
		tb.t.Fatal(err)
	}
	tb.press("#send", `!/fence is older/.test(document.getElementById("scene").textContent)`)
	tb.do(chromedp.SetUploadFiles("#replay", []string{file}))
	tb.await(`/^Replay/.test(document.getElementById("stage-status").textContent)`)
	tb.await(scene("its fence is older"))
	tb.verdicts("nothing", "lock")
}

func fitsEveryScreen(tb *tab, s *service) {
	tb.enter(s, small)
	tb.press("#pause", scene("its fence is older"))
	for _, width := range []int64{320, 360, 768, 1024, 1440, 1920} {
		tb.do(chromedp.EmulateViewport(width, 900))
		tb.await(fmt.Sprintf("innerWidth === %d", width))
		if wide := read[int64](tb, "document.documentElement.scrollWidth"); wide > width {
			tb.t.Errorf("at %d px the page is %d px wide: %q", width, wide, read[[]string](tb,
				fmt.Sprintf(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > %d).map(e => e.outerHTML.slice(0, 80))`, width)))
		}
	}
}

func stageByKeyboard(tb *tab, s *service) {
	tb.enter(s, small)
	reached := make(map[string]bool)
	for range 60 {
		tb.do(chromedp.KeyEvent(kb.Tab))
		reached[read[string](tb, "document.activeElement.id")] = true
		if !read[bool](tb, `document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			tb.t.Errorf("the focus doesn't show on %s", read[string](tb, "document.activeElement.outerHTML"))
		}
	}
	for _, id := range []string{"users", "clicks", "stage-stock", "send", "double", "pause", "locks-button", "kill", "replay"} {
		if !reached[id] {
			tb.t.Errorf("Tab doesn't reach %s", id)
		}
	}
	focus := func(id string) {
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.getElementById(%q).focus()", id)))
	}
	focus("users")
	tb.do(chromedp.KeyEvent(kb.ArrowRight))
	tb.awaitText("users-now", "^130$")
	focus("double")
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.await(scene("another click of the user is under way"))
	tb.quiet()
	focus("send")
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.awaitText("stage-status", "130 users")
}

func stageInChinese(tb *tab, s *service) {
	tb.enter(s, small+"&lang=zh-CN")
	tb.awaitText("verdict-fence", "^✓ 守住")
	tb.press("#pause", scene("fence 更旧"))
	tb.awaitText("log", "数据库拒绝了迟到的写入")
	if words := read[[]string](tb, `[...document.querySelectorAll("#stage button, #stage h3, #stage dt, #stage .plain li")].map(e => e.textContent).filter(text => /[a-z]{4,} [a-z]{3,}/i.test(text))`); len(words) > 0 {
		tb.t.Errorf("not in Chinese: %q", words)
	}
}

// finding is a rule that axe finds broken.
type finding struct {
	ID    string `json:"id"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

func axeFindsNothing(tb *tab, s *service) {
	tb.enter(s, small)
	tb.press("#pause", scene("its fence is older"))
	for _, scheme := range []string{"light", "dark"} {
		tb.do(prefer("prefers-color-scheme", scheme))
		for _, page := range []string{"", "stage/code/lane.go#L10"} {
			if page != "" {
				tb.do(chromedp.Navigate(s.url() + page))
			}
			tb.do(chromedp.Evaluate[chromedp.Void](axe))
			tb.do(chromedp.Evaluate[chromedp.Void](`axe.run().then(found => window.found = JSON.stringify(found.violations))`))
			tb.await(`window.found !== undefined`)
			var found []finding
			if err := json.Unmarshal([]byte(read[string](tb, "window.found")), &found); err != nil {
				tb.t.Fatal(err)
			}
			for _, f := range found {
				tb.t.Errorf("%s, %q: %s: %+v", scheme, page, f.ID, f.Nodes)
			}
		}
		tb.enter(s, "")
	}
}

package browser_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/redlatch/redlatch/core/console"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

// axeEnv names the script of axe-core, which looks for what keeps people out.
const axeEnv = "REDLATCH_AXE"

// booth is a console over some locks.
type booth struct {
	url    string
	locker *lock.Locker
	store  *memstore.Store
}

func newBooth(t *testing.T, opts ...console.Option) *booth {
	t.Helper()
	recorder := console.NewRecorder()
	b := &booth{store: memstore.New()}
	b.locker = lock.New(b.store, lock.WithIdentity(lock.Identity{Service: "checkout", Host: "web-3", PID: 812}), lock.WithHooks(recorder.Hooks()))
	page := console.New(b.locker, append([]console.Option{
		console.WithRecorder(recorder), console.WithEvery(200 * time.Millisecond),
		console.WithAuthorizer(func(*http.Request) (string, bool) { return "ann", true }),
		console.WithRelease(func(context.Context, console.Release) error { return nil }),
	}, opts...)...)
	server := httptest.NewServer(page)
	b.url = server.URL + "/"
	t.Cleanup(func() {
		page.Close()
		server.Close()
		_ = b.locker.Close(context.Background())
	})
	for _, key := range []string{"order:4711", "order:4712", "invoice:7"} {
		if _, err := b.locker.Acquire(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.locker.ForceRelease(t.Context(), "invoice:7"); err != nil {
		t.Fatal(err)
	}
	dead := lock.Claim{Key: "<b>report</b>", Owner: "0fa1b2c3-7421-869a-addb-44fb92259a1b:7", TTL: time.Hour}
	if _, err := lock.Blocking(b.store).Acquire(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	return b
}

const live = `document.getElementById("status")?.dataset.state === "live"`

func (tb *tab) watches(url string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(url))
	tb.await(live)
}

func (tb *tab) clicks(selector string) {
	tb.t.Helper()
	tb.do(chromedp.Click(selector))
}

func TestTheConsole(t *testing.T) {
	browser := chromium(t)
	for name, test := range map[string]func(*tab){
		"shows what is held, what is wrong, and what was lost": consoleShows,
		"takes a lock away when the key is typed":              consoleReleases,
		"works by keyboard alone":                              consoleByKeyboard,
		"axe finds nothing, in light and dark":                 consoleIsAccessible,
		"fits a phone":                                         consoleFitsAPhone,
		"speaks Chinese":                                       consoleSpeaksChinese,
		"comes back when the server does":                      consoleComesBack,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newTab(t, browser))
		})
	}
}

func consoleShows(tb *tab) {
	b := newBooth(tb.t)
	tb.watches(b.url)
	tb.await(`document.querySelectorAll("#held tbody tr").length === 3`)
	tb.awaitText("held", `order:4711exclusivecheckout@web-3 pid 812[0-9.]+ s[0-9]+ s[0-9]{15,}0`)
	tb.awaitText("held", "<b>report</b>")
	tb.awaitText("problems", "^Problems: 1$")
	tb.awaitText("losses", "invoice:7.*forced")
	tb.awaitText("hottest", "order:4711")
	waited := make(chan error, 1)
	ctx, cancel := context.WithCancel(tb.t.Context())
	go func() { waited <- b.locker.Do(ctx, "order:4711", func(context.Context) error { return nil }) }()
	tb.awaitText("waiting", "order:4711 · 1")
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		tb.t.Error(err)
	}
	tb.do(chromedp.SendKeys("#filter", "report"))
	tb.await(`document.querySelectorAll("#held tbody tr").length === 1`)
	tb.clicks(`#held button`)
	tb.awaitText("d-state", "^Held, mode exclusive$")
	tb.awaitText("d-holders", "its process has ended")
}

func consoleReleases(tb *tab) {
	b := newBooth(tb.t)
	tb.watches(b.url)
	tb.await(`document.querySelector('[data-key="order:4711"]') !== null`)
	tb.clicks(`#held [data-key="order:4711"]`)
	tb.awaitText("d-timeline", "granted · Fence [0-9]{15,}")
	tb.do(chromedp.SendKeys("#typed", "order:471"), chromedp.SendKeys("#reason", "it hangs"))
	if !read[bool](tb, `document.getElementById("take").disabled`) {
		tb.t.Error("a part of the key is enough")
	}
	tb.do(chromedp.SendKeys("#typed", "1"))
	tb.await(`!document.getElementById("take").disabled`)
	tb.clicks("#take")
	tb.awaitText("answer", "^It is free.$")
	tb.awaitText("d-timeline", "taken away · it hangs · ann")
	tb.await(`document.querySelector('#held [data-key="order:4711"]') === null`)
}

func consoleByKeyboard(tb *tab) {
	b := newBooth(tb.t)
	tb.watches(b.url)
	tb.await(`document.querySelectorAll("#held tbody tr").length === 3`)
	var order []string
	for range 6 {
		tb.do(chromedp.KeyEvent(kb.Tab))
		if !read[bool](tb, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			tb.t.Errorf("the focus doesn't show on %s", read[string](tb, "document.activeElement.outerHTML"))
		}
		order = append(order, read[string](tb, `document.activeElement.dataset.key ?? document.activeElement.dataset.lang ?? (document.activeElement.id || document.activeElement.className)`))
	}
	if want := []string{"en", "zh-CN", "filter", "scroll", "<b>report</b>", "order:4711"}; !slices.Equal(order, want) {
		tb.t.Fatalf("Tab goes through %q, want %q", order, want)
	}
	tb.do(chromedp.Sleep(time.Second)) // several looks, which must not move the focus
	if at := read[string](tb, "document.activeElement.dataset.key"); at != "order:4711" {
		tb.t.Errorf("a look moved the focus to %q", at)
	}
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.await(`document.getElementById("detail").open`)
	tb.do(chromedp.KeyEvent(kb.Escape))
	tb.await(`!document.getElementById("detail").open`)
}

func consoleIsAccessible(tb *tab) {
	script := os.Getenv(axeEnv)
	if script == "" {
		tb.t.Skip("\n\n*** SKIPPED, NOT TESTED: axe over the console; run make test-browser, which needs npm ***\n\n")
	}
	axe, err := os.ReadFile(script)
	if err != nil {
		tb.t.Fatal(err)
	}
	b := newBooth(tb.t)
	for _, scheme := range []string{"light", "dark"} {
		for _, lang := range []string{"en", "zh-CN"} {
			tb.do(prefer("prefers-color-scheme", scheme))
			tb.watches(b.url + "?lang=" + lang)
			tb.await(`document.querySelectorAll("#held tbody tr").length === 3`)
			tb.do(chromedp.Evaluate[chromedp.Void](string(axe)))
			tb.findsNothing(scheme + ", " + lang)
			tb.clicks(`#held [data-key="order:4712"]`)
			tb.await(`document.getElementById("detail").open`)
			tb.findsNothing(scheme + ", " + lang + ", a key")
		}
	}
}

// findsNothing has axe look at the page.
func (tb *tab) findsNothing(where string) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](`window.found = null; axe.run().then(r =>
		window.found = r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" ")), e => window.found = [String(e)]); undefined`))
	tb.await("window.found !== null")
	if found := read[[]string](tb, "window.found"); len(found) > 0 {
		tb.t.Errorf("%s: axe finds %q", where, found)
	}
	if passed := read[int](tb, `document.querySelectorAll("main, dialog, header").length`); passed != 3 {
		tb.t.Errorf("%s: the page has %d parts", where, passed)
	}
}

func consoleFitsAPhone(tb *tab) {
	b := newBooth(tb.t)
	if _, err := b.locker.Acquire(tb.t.Context(), strings.Repeat("W", 300)); err != nil {
		tb.t.Fatal(err)
	}
	tb.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	tb.watches(b.url)
	tb.await(`document.querySelectorAll("#held tbody tr").length === 4`)
	check := func() {
		if wide := read[int](tb, "document.documentElement.scrollWidth"); wide > 360 {
			tb.t.Errorf("the page is %d px wide", wide)
		}
	}
	check()
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-key^=WW]").click()`))
	tb.await(`document.getElementById("detail").open`)
	check()
	if wide := read[float64](tb, `document.getElementById("detail").scrollWidth`); wide > 360 {
		tb.t.Errorf("the dialog is %v px wide", wide)
	}
}

func consoleSpeaksChinese(tb *tab) {
	b := newBooth(tb.t)
	tb.watches(b.url + "?lang=zh-CN")
	tb.awaitText("h-held", "持有中")
	if lang, title := read[string](tb, "document.documentElement.lang"), read[string](tb, "document.title"); lang != "zh-CN" || title != "锁 · redlatch" {
		tb.t.Errorf("lang %q, title %q", lang, title)
	}
	tb.clicks("nav [data-lang=en]")
	tb.awaitText("h-held", "^Held ")
	missing := read[[]string](tb, `Object.keys(words.en).filter(w => !words["zh-CN"][w]).concat(Object.keys(words["zh-CN"]).filter(w => !words.en[w]))`)
	if len(missing) > 0 {
		tb.t.Errorf("one language lacks %q", missing)
	}
}

func consoleComesBack(tb *tab) {
	store := memstore.New()
	locker := lock.New(store)
	defer func() { _ = locker.Close(context.Background()) }()
	open := console.WithAuthorizer(func(*http.Request) (string, bool) { return "ann", true })
	first := console.New(locker, open)
	var handler http.Handler = first
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	defer server.Close()
	tb.watches(server.URL + "/")
	second := console.New(locker, open)
	defer second.Close()
	handler = second // before the streams of the first end
	first.Close()
	tb.await(live)
	if _, err := locker.Acquire(tb.t.Context(), "later"); err != nil {
		tb.t.Fatal(err)
	}
	tb.awaitText("held", "later")
}

// TestPicturesOfTheConsole draws the console for the manual.
func TestPicturesOfTheConsole(t *testing.T) {
	folder := os.Getenv(picturesEnv)
	if folder == "" {
		t.Skip("draws the pictures of the manual: run make page-pictures")
	}
	browser := chromium(t)
	for name, scheme := range map[string]string{"console": "light", "console-dark": "dark"} {
		b := newBooth(t)
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 3)
		for range 3 {
			go func() { waited <- b.locker.Do(ctx, "order:4711", func(context.Context) error { return nil }) }()
		}
		tb := newTab(t, browser)
		tb.do(chromedp.EmulateViewport(1100, 640, chromedp.EmulateScale(1.25)), prefer("prefers-color-scheme", scheme))
		tb.watches(b.url + "?lang=en")
		tb.awaitText("waiting", "order:4711 · 3")
		png, err := chromedp.Run(tb.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder+"/"+name+".png", png, 0o644); err != nil {
			t.Fatal(err)
		}
		cancel()
		for range 3 {
			if err := <-waited; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	}
}

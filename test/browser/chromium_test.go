package browser_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/redlatch/redlatch/test/internal/process"
)

// enableEnv switches these tests on. Without it they skip: a plain `go test`
// must not need a browser.
const enableEnv = "REDLATCH_BROWSER"

// names are what systems call it, as in scripts/install-chromium.sh.
var names = []string{"google-chrome", "google-chrome-stable", "chromium", "chromium-browser"}

// chromium starts a browser that ends with the test.
func chromium(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv(enableEnv) != "1" {
		t.Skip("\n\n*** SKIPPED, NOT TESTED: the page of the sale in a browser; run make test-browser ***\n\n")
	}
	binary := process.Find(t, names...)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(binary))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	allocated, end := chromedp.NewExecAllocator(context.Background(), options...)
	browser, cancel := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		if err := chromedp.Cancel(browser); err != nil {
			t.Errorf("end the browser: %v", err)
		}
		cancel()
		end()
	})
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	return browser
}

// tab is an open page. Nothing else is in its browser context: no cookies, no
// headers of other tests.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // that failed
	faults   []string // exceptions, errors on the console, broken policies
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	tb := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		if faults := tb.seen(&tb.faults); len(faults) > 0 {
			t.Errorf("the console has %q", faults)
		}
		cancel()
	})
	if err := chromedp.Listen(ctx, tb.heard); err != nil {
		t.Fatal(err)
	}
	return tb
}

// heard records what the console shows.
func (tb *tab) heard(event any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		tb.faults = append(tb.faults, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		tb.faults = append(tb.faults, fmt.Sprint("console.", e.Type))
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceNetwork {
			tb.requests = append(tb.requests, e.Entry.Text)
		} else {
			tb.faults = append(tb.faults, e.Entry.Text)
		}
	}
}

func (tb *tab) seen(list *[]string) []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.Clone(*list)
}

// do takes steps, each within the patience of the tests.
func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	for i, step := range steps {
		ctx, cancel := context.WithTimeout(tb.ctx, patience)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			tb.t.Fatalf("step %d: %v", i, err)
		}
	}
}

// read evaluates an expression.
func read[T any](tb *tab, expression string) T {
	tb.t.Helper()
	value, err := evaluate[T](tb, expression)
	if err != nil {
		tb.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func evaluate[T any](tb *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// text returns the text of the element with an id.
func (tb *tab) text(id string) string {
	tb.t.Helper()
	return read[string](tb, fmt.Sprintf("document.getElementById(%q).textContent", id))
}

var errNotYet = errors.New("not yet")

// await waits until an expression is true, also across a change of the page.
func (tb *tab) await(expression string) {
	tb.t.Helper()
	if process.Poll(patience, func() error {
		switch so, err := evaluate[bool](tb, expression); {
		case err != nil && !strings.Contains(err.Error(), "navigated"):
			tb.t.Fatalf("%s: %v", expression, err)
		case so:
			return nil
		}
		return errNotYet
	}) != nil {
		tb.t.Fatalf("not so after %v: %s; the page says:\n%s", patience, expression, read[string](tb, "document.body.innerText"))
	}
}

// awaitText waits until the element with an id has a text that matches.
func (tb *tab) awaitText(id, pattern string) {
	tb.t.Helper()
	tb.await(fmt.Sprintf("new RegExp(%q).test(document.getElementById(%q).textContent)", pattern, id))
}

// visit opens the page of a service and waits until it follows the sale.
func (tb *tab) visit(url string) {
	tb.t.Helper()
	tb.do(chromedp.Navigate(url))
	tb.await(following)
}

// following says that the page shows the sale: what it shows later moves nothing.
const following = `document.getElementById("connection")?.dataset.state === "connected"`

// idle waits until the page has finished what a button or a link began: until then it
// ignores other clicks, or moves what is clicked.
func (tb *tab) idle() {
	tb.t.Helper()
	tb.await(following + ` && document.querySelector("[aria-disabled]") === null`)
}

// click clicks as a mouse does.
func (tb *tab) click(selector string) {
	tb.t.Helper()
	tb.idle()
	tb.do(chromedp.Click(selector))
}

// prefer sets what the user prefers, such as prefers-color-scheme.
func prefer(feature, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
		})
		return err
	})
}

// header adds a header to all requests of the page.
func header(name, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
			Headers: network.Headers{name: value},
		})
		return err
	})
}

// control is something of the page that is operated or read as one, as screen
// readers see it.
type control struct{ role, name string }

func (tb *tab) controls() (all []control) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	tree, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (accessibility.GetFullAXTreeResult, error) {
		return cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	if err != nil {
		tb.t.Fatal(err)
	}
	for _, node := range tree.Nodes {
		if !node.Ignored {
			all = append(all, control{valueOf(node.Role), valueOf(node.Name)})
		}
	}
	return all
}

func valueOf(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

package browser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestThePageOfTheSale(t *testing.T) {
	browser := chromium(t)
	binary := build(t)
	for name, test := range map[string]func(*tab, *service){
		"loads without an error, and says that nothing is on sale": loads,
		"a second click of a user is refused":                      ordersTwice,
		"a crowd buys what there is, and the counters move":        sendsACrowd,
		"the stream comes back when the service does":              survivesARestart,
		"speaks Chinese to those browsers, and switches":           speaksChinese,
		"works by keyboard alone, and shows the focus":             worksByKeyboard,
		"screen readers find a name on every control":              isNamed,
		"fits a phone": fitsAPhone,
		"is dark where that is preferred, and readable in both":        isDark,
		"moves nothing where that is preferred":                        movesNothing,
		"shows titles as they are, and runs nothing of them":           escapes,
		"orders as the user that a gateway names, and offers no crowd": ordersBehindAGateway,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newTab(t, browser), serve(t, binary))
		})
	}
}

func loads(tb *tab, s *service) {
	tb.visit(s.url())
	tb.awaitText("name", "^Nothing is on sale yet$")
	if failed := tb.seen(&tb.requests); len(failed) > 0 {
		tb.t.Errorf("requests failed: %q", failed)
	}
	if lang, title := read[string](tb, "document.documentElement.lang"), read[string](tb, "document.title"); lang != "en" || title != "Flash sale · redlatch" {
		tb.t.Errorf("lang %q, title %q", lang, title)
	}
	tb.click("#buy")
	tb.awaitText("answer", "Begin a new sale first")
}

func ordersTwice(tb *tab, s *service) {
	tb.visit(s.url())
	tb.click("#open")
	tb.awaitText("stock", "^100$")
	tb.click("#buy")
	tb.awaitText("answer", "^201 · ordered$")
	tb.awaitText("sold", "^1$")
	tb.click("#buy")
	tb.awaitText("answer", "^409 ALREADY_ORDERED · the user has one already$")
	tb.awaitText("answers", "ALREADY_ORDERED")
	tb.awaitText("left", "^99$")
	if live := read[string](tb, `getComputedStyle(document.getElementById("answer")).display`); live == "none" {
		tb.t.Error("the answer isn't shown")
	}
}

func sendsACrowd(tb *tab, s *service) {
	s.open(tb.t, "Half price", 150)
	tb.visit(s.url())
	tb.awaitText("stock", "^150$")
	tb.click("#crowd")
	tb.awaitText("sold", "^150$")
	tb.awaitText("window", "^sold out$")
	tb.awaitText("answer", "clicks: .*150 ordered")
	tb.await(counted + ` === 600`)
	tb.await(`[...document.querySelectorAll("#locks tbody tr")].some(tr =>
		tr.cells[0].textContent === "lock:order:<userId>" && Number(tr.cells[3].textContent) + Number(tr.cells[4].textContent) === 600)`)
	tb.awaitText("p50", `^[0-9.]+ ms$`)
	tb.awaitText("p99", `^[0-9.]+ ms$`)
	if kept := read[int](tb, `document.querySelectorAll("#promises .kept").length`); kept != 3 {
		tb.t.Errorf("%d promises are kept, want 3: %s", kept, tb.text("promises"))
	}
	if now := read[float64](tb, `document.getElementById("progress").value`); now != 150 {
		tb.t.Errorf("the progress is at %v", now)
	}
}

// counted is how many answers the page counts.
const counted = `[...document.querySelectorAll("#answers tbody tr")].reduce((sum, tr) => sum + Number(tr.cells[1].textContent), 0)`

func survivesARestart(tb *tab, s *service) {
	s.open(tb.t, "Half price", 7)
	tb.visit(s.url())
	tb.awaitText("stock", "^7$")
	s.running.Kill()
	tb.await(`document.getElementById("connection").dataset.state === "connecting"`)
	s.start(tb.t)
	tb.await(following)
	tb.click("#buy")
	tb.awaitText("sold", "^1$")
}

func speaksChinese(tb *tab, s *service) {
	s.open(tb.t, "Half price", 5)
	tb.do(header("Accept-Language", "zh-CN,zh;q=0.9,en;q=0.1"))
	tb.visit(s.url())
	const lang = "document.documentElement?.lang"
	if got := read[string](tb, lang); got != "zh-CN" {
		tb.t.Errorf("lang %q", got)
	}
	tb.awaitText("window", "开售于")
	tb.click("#buy")
	tb.awaitText("answer", "^201 · 下单成功$")
	tb.click("#buy")
	tb.awaitText("answer", "该用户已经下过单")
	tb.click("nav a[lang=en]")
	tb.await(lang + ` === "en" && document.getElementById("buy")?.textContent === "Order one"`)
	tb.click("nav a[lang=zh-CN]")
	tb.await(lang + ` === "zh-CN" && document.title.startsWith("限时抢购")`)
}

func worksByKeyboard(tb *tab, s *service) {
	tb.visit(s.url())
	press := func(key string) string {
		tb.do(chromedp.KeyEvent(key))
		if !read[bool](tb, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			tb.t.Errorf("the focus doesn't show on %s", read[string](tb, "document.activeElement.outerHTML"))
		}
		return read[string](tb, "document.activeElement.id || document.activeElement.lang")
	}
	var order []string
	for range 6 {
		order = append(order, press(kb.Tab))
	}
	if want := []string{"en", "zh-CN", "user", "buy", "crowd", "open"}; !slices.Equal(order, want) {
		tb.t.Fatalf("Tab goes through %q, want %q", order, want)
	}
	press(kb.Enter)
	tb.awaitText("stock", "^100$")
	tb.idle()
	if now := press(kb.Enter); now != "open" {
		tb.t.Errorf("the focus went to %q", now)
	}
	tb.await(`document.getElementById("voucher").options.length === 2`)
	tb.idle()
	tb.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("user").focus(); document.getElementById("user").select()`))
	tb.do(chromedp.KeyEvent("ann"), chromedp.KeyEvent(kb.Enter))
	tb.awaitText("answer", "^201 ")
	tb.idle()
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.awaitText("answer", "^409 ALREADY_ORDERED")
	tb.awaitText("sold", "^1$")
}

func isNamed(tb *tab, s *service) {
	s.open(tb.t, "Half price", 5)
	s.open(tb.t, "Free", 5)
	tb.visit(s.url())
	tb.click("#buy")
	tb.awaitText("sold", "^1$")
	tb.awaitText("answers", "1")
	seen := make(map[string]int)
	for _, c := range tb.controls() {
		seen[c.role]++
		switch c.role {
		case "button", "textbox", "combobox", "link", "progressbar", "table", "region", "navigation", "heading", "rowheader":
			if strings.TrimSpace(c.name) == "" {
				tb.t.Errorf("a %s has no name", c.role)
			}
		}
	}
	for role, want := range map[string]int{"button": 3, "textbox": 1, "link": 2, "table": 2, "main": 1, "navigation": 1, "status": 2} {
		if seen[role] < want {
			tb.t.Errorf("%d of role %s, want %d: %v", seen[role], role, want, seen)
		}
	}
}

func fitsAPhone(tb *tab, s *service) {
	s.open(tb.t, strings.Repeat("Halbpreisgutschein", 8), 1_000_000_000)
	s.open(tb.t, strings.Repeat("W", 200), 1_000_000_000)
	tb.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	tb.visit(s.url())
	tb.click("#buy")
	tb.awaitText("answer", "^201 ")
	tb.click("#buy")
	tb.awaitText("answer", "^409 ")
	tb.awaitText("locks", "lock:order")
	tb.awaitText("answers", "ALREADY_ORDERED")
	if wide := read[int](tb, "document.documentElement.scrollWidth"); wide > 360 {
		tb.t.Errorf("the page is %d px wide: %q", wide, read[[]string](tb,
			`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 360).map(e => e.outerHTML.slice(0, 80))`))
	}
}

// contrast is the lowest contrast of text, as WCAG computes it.
const contrast = `(() => {
	const light = color => {
		const [r, g, b] = color.match(/[0-9.]+/g).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const behind = e => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (!color.startsWith("rgba(0, 0, 0, 0")) return color;
		}
	};
	return Math.min(...[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
		.map(e => [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a)).map(([a, b]) => (a + .05) / (b + .05)));
})()`

func isDark(tb *tab, s *service) {
	s.open(tb.t, "Half price", 5)
	tb.visit(s.url())
	tb.click("#buy")
	tb.awaitText("answers", "1")
	paper := make(map[string]string)
	for _, scheme := range []string{"light", "dark"} {
		tb.do(prefer("prefers-color-scheme", scheme))
		paper[scheme] = read[string](tb, "getComputedStyle(document.body).backgroundColor")
		if lowest := read[float64](tb, contrast); lowest < 4.5 {
			tb.t.Errorf("%s: the contrast is %.2f, want 4.5", scheme, lowest)
		}
	}
	if paper["dark"] == paper["light"] {
		tb.t.Errorf("the page is %s in both", paper["dark"])
	}
}

func movesNothing(tb *tab, s *service) {
	s.open(tb.t, "Half price", 5)
	tb.visit(s.url())
	tb.click("#buy")
	tb.awaitText("answers", "1")
	const moving = `[...document.querySelectorAll("*")].filter(e => getComputedStyle(e).transitionDuration !== "0s").length`
	for preference, want := range map[string]bool{"no-preference": true, "reduce": false} {
		tb.do(prefer("prefers-reduced-motion", preference))
		if n := read[int](tb, moving); n > 0 != want {
			tb.t.Errorf("%s: %d elements move", preference, n)
		}
	}
}

func escapes(tb *tab, s *service) {
	const title = `<img src=x onerror="document.title='taken'"><script>1</script>`
	s.open(tb.t, title, 5)
	s.open(tb.t, title+"2", 5)
	tb.visit(s.url() + `?voucher="><script>2</script>&lang="><img>`)
	tb.await(fmt.Sprintf("document.getElementById('name').textContent === %q", title+"2"))
	tb.await(fmt.Sprintf("document.getElementById('voucher').options[1].textContent === %q", title))
	if n := read[int](tb, `document.querySelectorAll("img, main script").length`); n != 0 {
		tb.t.Errorf("%d elements came with a title", n)
	}
}

func ordersBehindAGateway(tb *tab, s *service) {
	s.open(tb.t, "Half price", 5)
	tb.do(header("X-User-Id", `ann"><b>`))
	tb.visit(s.url())
	if user := read[string](tb, `document.getElementById("user").readOnly && document.getElementById("user").value`); user != `ann"><b>` {
		tb.t.Errorf("orders as %q", user)
	}
	if n := read[int](tb, `document.querySelectorAll("#crowd, #open").length`); n != 0 {
		tb.t.Errorf("%d buttons of the demo are there", n)
	}
	tb.click("#buy")
	tb.awaitText("answer", "^201 ")
}

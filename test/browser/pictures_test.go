package browser_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/redlatch/redlatch/test/internal/process"
)

// picturesEnv names the folder where the pictures of the README go.
const picturesEnv = "REDLATCH_PAGE_PICTURES"

// TestPictures shows the page in the middle of a sale.
func TestPictures(t *testing.T) {
	folder := os.Getenv(picturesEnv)
	if folder == "" {
		t.Skip("draws the pictures of the README: run make page-pictures")
	}
	browser := chromium(t)
	binary := build(t)
	for _, picture := range []struct {
		name, lang, scheme string
		width              int64
	}{
		{"sale-page", "en", "light", 960},
		{"sale-page-dark", "en", "dark", 960},
		{"sale-page.zh-CN", "zh-CN", "light", 960},
		{"sale-page-dark.zh-CN", "zh-CN", "dark", 960},
	} {
		s := serve(t, binary, "--lock-wait=50ms")
		tb := newTab(t, browser)
		tb.do(chromedp.EmulateViewport(picture.width, 800, chromedp.EmulateScale(1.25)), prefer("prefers-color-scheme", picture.scheme))
		tb.visit(s.url() + "?lang=" + picture.lang)
		crowd, err := process.Start(process.Spec{
			Path: binary, Args: []string{"load", "--target", s.url(), "--users", "3000", "--stock", "2000", "--concurrency", "64"},
			Log: filepath.Join(t.TempDir(), "log"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(crowd.Kill)
		tb.await(`Number(document.getElementById("sold").textContent.replace(/\D/g, "")) > 1200 && document.querySelector(".hot") !== null`)
		tb.click("#buy")
		tb.awaitText("answer", "^201 ")
		tb.await(`document.querySelector(".hot") !== null`)
		png, err := chromedp.Run(tb.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		crowd.Kill()
		if err := os.WriteFile(filepath.Join(folder, picture.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s.png: %d bytes", picture.name, len(png))
	}
}

package browser_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// picturesEnv names the folder where the pictures of the README go.
const picturesEnv = "REDLATCH_PAGE_PICTURES"

// TestPictures shows the stage: a crowd, and then a holder that was paused.
func TestPictures(t *testing.T) {
	folder := os.Getenv(picturesEnv)
	if folder == "" {
		t.Skip("draws the pictures of the README: run make page-pictures")
	}
	browser := chromium(t)
	binary := build(t)
	for _, picture := range []struct{ name, film, lang, scheme string }{
		{"stage", "stage-run", "en", "light"},
		{"stage-dark", "stage-run-dark", "en", "dark"},
		{"stage.zh-CN", "", "zh-CN", "light"},
		{"stage-dark.zh-CN", "", "zh-CN", "dark"},
	} {
		s := serveStage(t, binary)
		tb := newTab(t, browser)
		tb.do(chromedp.EmulateViewport(960, 800), prefer("prefers-color-scheme", picture.scheme))
		tb.visit(s.url() + "?users=400&clicks=3&stock=150&seed=41&lang=" + picture.lang)
		f := &film{}
		for !read[bool](tb, crowded) {
			f.shoot(t, tb, "#stage", 200*time.Millisecond)
		}
		f.shoot(t, tb, "#stage", 2*time.Second)
		still := f.last()
		tb.do(chromedp.Click("#pause"))
		for !read[bool](tb, scene("fence is older|fence 更旧")) {
			f.shoot(t, tb, "#stage", 200*time.Millisecond)
		}
		tb.quiet()
		f.shoot(t, tb, "#stage", 5*time.Second)
		write := func(name string, encode func(*bytes.Buffer) error) {
			var file bytes.Buffer
			if err := encode(&file); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name+".png"), file.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s.png: %d bytes", name, file.Len())
		}
		write(picture.name, func(w *bytes.Buffer) error {
			return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(w, still)
		})
		if picture.film != "" {
			write(picture.film, f.encode)
		}
	}
}

// shoot adds a picture of an element, unless nothing has changed.
func (f *film) shoot(t *testing.T, tb *tab, selector string, shown time.Duration) {
	t.Helper()
	text, err := chromedp.Run(tb.ctx, chromedp.Screenshot(selector))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	f.add(picture, shown)
}

func TestAFilmIsWhatWasShot(t *testing.T) {
	f := &film{}
	for n := range 3 {
		picture := image.NewRGBA(image.Rect(0, 0, 40, 30+n))
		for i := range picture.Pix {
			picture.Pix[i] = 255
		}
		picture.Pix[40*(n+1)] = 0
		f.add(picture, time.Second)
	}
	f.add(f.frames[2].picture, time.Second) // nothing new
	var file bytes.Buffer
	if err := f.encode(&file); err != nil {
		t.Fatal(err)
	}
	first, err := png.Decode(bytes.NewReader(file.Bytes())) // as a reader without animation sees it
	if err != nil || first.Bounds() != image.Rect(0, 0, 40, 32) {
		t.Errorf("%v, %v", first, err)
	}
	if n := bytes.Count(file.Bytes(), []byte("fcTL")); n != 3 {
		t.Errorf("%d frames, want 3", n)
	}
}

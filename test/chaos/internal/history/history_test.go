package history_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

func TestAFileReadsBackWhatWasAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	file, err := history.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := history.Event{Kind: history.Acquire, Worker: 3, Life: 2, Key: "k", Owner: "o", Call: 5, Return: 9, Fence: 1 << 52}
	for range 3 {
		if err := file.Add(want); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.Write([]byte(`{"k":"acq`)); err != nil { // the process was killed here
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := history.Read[history.Event](path)
	if err != nil || len(got) != 3 || got[2] != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestABrokenLineIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	if err := os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := history.Read[history.Event](path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want an error that names the line", err)
	}
}

// Lines of several goroutines, more than the reader takes at once, and some
// that were reserved by a process that was killed before it wrote them.
func TestAPageLosesOnlyWhatAKillInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	page, err := history.NewPage(path)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(`{"k":"acquire","key":"` + strings.Repeat("x", 90) + `"}` + "\n")
	const writers, each = 4, 8000
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if !page.Append(line) {
					t.Error("full")
					return
				}
				if i%100 == 0 {
					page.Append(bytes.Repeat([]byte{0}, 77)) // reserved, never written
					page.Append([]byte("{\"k\":\"torn\x00\x00\x00\x00"))
				}
			}
		})
	}
	wg.Wait()
	if err := page.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := history.CopyPage(&out, path); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat(line, writers*each); !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got %d bytes, want %d of whole lines", out.Len(), len(want))
	}
}

func TestAnEmptyPageHasNoLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page")
	page, err := history.NewPage(path)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	var out bytes.Buffer
	if err := history.CopyPage(&out, path); err != nil || out.Len() > 0 {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestTheClockGoesForward(t *testing.T) {
	clock := history.StartClock()
	begin, start := clock.Now(), time.Now()
	time.Sleep(20 * time.Millisecond)
	end, elapsed := clock.Now(), int64(time.Since(start))
	if end-begin < int64(20*time.Millisecond) || end-begin > elapsed+int64(time.Second) {
		t.Errorf("it went %v in %v", time.Duration(end-begin), time.Duration(elapsed))
	}
}

package httpguard_test

import (
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

func retryAfter(d time.Duration) string {
	w := httptest.NewRecorder()
	answers := httpguard.Answers{Contention: 409, RetryAfter: d}
	answers.Write(w, httptest.NewRequest("POST", "/", nil), &guard.Error{Kind: guard.Contended})
	return w.Header().Get("Retry-After")
}

func TestRetryAfterIsWholeSecondsAndNeverTooEarly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90", 1<<63 - 1: "9223372037",
	} {
		if got := retryAfter(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add(int64(time.Second))
	f.Add(int64(1<<63 - 1))
	f.Fuzz(func(t *testing.T, n int64) {
		if n <= 0 {
			return // refused by the option
		}
		seconds, err := strconv.ParseInt(retryAfter(time.Duration(n)), 10, 64)
		late := seconds - n/int64(time.Second)
		if err != nil || seconds < 1 || late < 0 || late > 1 {
			t.Fatalf("%v became %d s, %v", time.Duration(n), seconds, err)
		}
	})
}

func TestAnswerSaysHowLongItIs(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "3") // of an answer that was not given
	httpguard.DefaultAnswers().Write(w, httptest.NewRequest("POST", "/", nil), &guard.Error{Kind: guard.Lost})
	if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
		t.Errorf("got %s for %d bytes", got, w.Body.Len())
	}
}

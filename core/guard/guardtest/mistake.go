package guardtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
)

// Mistake is one that people make with an integration, and what they read of it.
type Mistake struct {
	Code    string // what they write
	Found   string // where they read it: "at the start"
	Message string
}

// Listed compares the code block of a section of a manual with mistakes: the section
// has no others. It prints what the block must say where that differs.
func Listed(t testing.TB, file, heading string, mistakes []Mistake) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, m := range mistakes {
		if m.Message == "" {
			t.Errorf("%s: there is no message", m.Code)
		}
		want.WriteString(m.Code + "\n    " + m.Found + ": " + strings.ReplaceAll(strings.TrimSpace(m.Message), "\n", "\n    ") + "\n")
	}
	_, section, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, _ := strings.Cut(section, "\n```text\n")
	block, _, _ = strings.Cut(block, "```\n")
	if block != want.String() {
		t.Errorf("the block of section %q of %s must say:\n%s", heading, file, want.String())
	}
}

// AtStart is the mistake that ends the start with err.
func AtStart(code string, err error) Mistake {
	return Returned(code, "at the start", err)
}

// AtStartPanics is the mistake that ends the start with a panic of f.
func AtStartPanics(code string, f func()) (m Mistake) {
	defer func() {
		if said := recover(); said != nil {
			m = Mistake{Code: code, Found: "at the start", Message: fmt.Sprint(said)}
		}
	}()
	f()
	return m
}

// Returned is the mistake of which a call returns err.
func Returned(code, found string, err error) Mistake {
	m := Mistake{Code: code, Found: found}
	if err != nil {
		m.Message = err.Error()
	}
	return m
}

// AtRequest is the mistake that a request shows: send serves it behind a guard like g, and
// returns the status, which must be 500. The message is what the guard has logged.
func AtRequest(t testing.TB, code string, g *guard.Guard, send func(g *guard.Guard) (status int)) Mistake {
	t.Helper()
	var log bytes.Buffer
	if status := send(g.WithLogger(slog.New(slog.NewJSONHandler(&log, nil)))); status != http.StatusInternalServerError {
		t.Errorf("%s: the answer is %d, want 500", code, status)
	}
	var line struct{ Reason string }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Errorf("%s: %v: %s", code, err, log.String())
	}
	return Mistake{Code: code, Found: "500, and in the log", Message: line.Reason}
}

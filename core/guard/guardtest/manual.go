package guardtest

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
)

// Quoted compares the messages that a section of a manual quotes, one line each in
// fenced blocks without a language, with what programs really print.
func Quoted(t testing.TB, file, heading string, messages []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := make(map[string]bool)
	inside, ours := false, false
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		switch fence, ok := strings.CutPrefix(line, "```"); {
		case ok:
			inside, ours = !inside, fence == ""
		case inside && ours && line != "":
			quoted[line] = true
		}
	}
	for _, message := range messages {
		for line := range strings.Lines(message) {
			line = strings.TrimSpace(line)
			if _, known := quoted[line]; !known {
				t.Errorf("%s does not quote\n%s", file, line)
			}
			quoted[line] = false
		}
	}
	for _, line := range slices.Sorted(maps.Keys(quoted)) {
		if quoted[line] {
			t.Errorf("%s quotes what nothing prints:\n%s", file, line)
		}
	}
}

// Mistake is one that people make with an integration, and what they read of it.
type Mistake struct {
	Code string // what they write
	// Start says that the program ends with the message. Otherwise a request is answered with
	// 500, and the message is in the log.
	Start   bool
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
		found := "500, and in the log: "
		if m.Start {
			found = "at the start: "
		}
		want.WriteString(m.Code + "\n    " + found + strings.ReplaceAll(strings.TrimSpace(m.Message), "\n", "\n    ") + "\n")
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
	if err == nil {
		return Mistake{Code: code, Start: true}
	}
	return Mistake{Code: code, Start: true, Message: err.Error()}
}

// AtStartPanics is the mistake that ends the start with a panic of f.
func AtStartPanics(code string, f func()) (m Mistake) {
	defer func() {
		if err, ok := recover().(error); ok {
			m = AtStart(code, err)
		}
	}()
	f()
	return AtStart(code, nil)
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
	return Mistake{Code: code, Message: line.Reason}
}

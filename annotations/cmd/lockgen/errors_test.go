package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/redlatch/redlatch/core/guard/guardtest"
)

// TestTheManualQuotesTheErrorsOfLockgen: its own test holds that it says so.
func TestTheManualQuotesTheErrorsOfLockgen(t *testing.T) {
	script, err := txtar.ParseFile(filepath.Join("testdata", "mistakes.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]string)
	for _, f := range script.Files {
		files[f.Name] = strings.Split(string(f.Data), "\n")
	}
	var mistakes []guardtest.Mistake
	for _, said := range files["want"] {
		part := strings.SplitN(said, ":", 3)
		if said == "" || len(part) != 3 {
			continue
		}
		line, err := strconv.Atoi(part[1])
		if err != nil {
			t.Fatal(err)
		}
		code := strings.TrimSpace(files[part[0]][line-1])
		if n := len(mistakes); n > 0 && mistakes[n-1].Code == code && strings.HasPrefix(mistakes[n-1].Message, part[0]+":"+part[1]+":") {
			mistakes[n-1].Message += "\n" + said
			continue
		}
		mistakes = append(mistakes, guardtest.Mistake{Code: code, Found: "lockgen", Message: said})
	}
	guardtest.Listed(t, filepath.Join("..", "..", "..", "docs", "errors.md"), "lockgen", mistakes)
}

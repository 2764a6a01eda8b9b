package stage

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/examples/seckill/internal/store"
)

var (
	//go:embed lane.go
	laneCode string
	//go:embed book.go
	bookCode string
	//go:embed state.go
	stateCode string
)

// code are the files that the page shows, by name.
var code = map[string]string{"lane.go": laneCode, "book.go": bookCode, "state.go": stateCode, "write.go": store.WriteCode}

// marks are the lines that the page links to: the first in each file that has the text.
var marks = map[string]struct{ file, text string }{
	"nothing":     {"book.go", "// page: beginner"},
	"lock":        {"lane.go", "// page: locks"},
	"fence":       {"lane.go", "// page: fence"},
	"stock":       {"write.go", "remaining > 0"},
	"fence-check": {"write.go", "s.guards.Claim("},
	"verdict":     {"book.go", "// page: verdict"},
	"broken":      {"state.go", "// page: broken"},
	"spared":      {"state.go", "// page: spared"},
	"held":        {"state.go", "// page: held"},
	"latency":     {"lane.go", "// page: latency"},
	"answers":     {"lane.go", "// page: answers"},
	"contended":   {"lane.go", "// page: contended"},
}

// Links are the addresses of the lines that make the numbers of the page true, by what the
// number is about. An address is relative to that of the stage.
func Links() map[string]string {
	links := make(map[string]string, len(marks))
	for name, m := range marks {
		before, _, found := strings.Cut(code[m.file], m.text)
		if found {
			links[name] = fmt.Sprintf("code/%s#L%d", m.file, 1+strings.Count(before, "\n"))
		}
	}
	return links
}

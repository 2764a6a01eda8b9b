package world

import (
	"time"

	"github.com/redlatch/redlatch/test/sim/internal/model"
)

// plant is a bug that was planted between the engine and the server. The zero
// value plants none.
type plant struct {
	poll time.Duration // of the lockers
}

func newPlant(string, *World) *plant { return &plant{} }

func (p *plant) muted(string) bool { return false }

func (p *plant) heard(string, string, int) {}

func (p *plant) alias(owner string) string { return owner }

func (p *plant) run(e *execution, run func(keys, args []string) model.Reply) model.Reply {
	return run(e.keys, e.args)
}

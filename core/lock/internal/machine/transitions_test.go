package machine

var phaseNames = [...]string{"absent", "queued", "calling", "resting", "retrying", "sharing", "joining", "holding", "extending", "releasing", "lost"}
var stageNames = [...]string{"free", "asking", "held", "ending", "lapsed", "undoing"}
var kindNames = [...]string{
	"arrive", "leave", "release", "extend", "commit", "acquired", "released", "lowered", "renewed", "forced", "watched",
	"hint", "check", "timer", "force", "suspended", "drain", "end", "close",
}

func (p phase) String() string { return phaseNames[p] }
func (s stage) String() string { return stageNames[s] }

// transition is a change of a caller's phase, or of a claim's stage, by an event.
type transition struct {
	claim    bool
	from, to uint8
	kind     Kind
	ans      Answer
}

type transitions map[transition]bool

// observe makes a step and records what it has changed.
func (x *explorer) observe(m *Machine, e *Event, now Time, out []Effect) []Effect {
	type was struct {
		stage stage
		owner Owner
	}
	var phases [maxCallers]phase
	var stages [16]was
	for s := range m.callers {
		phases[s] = m.callers[s].phase
	}
	for i := range m.claims {
		stages[i] = was{m.claims[i].stage, m.claims[i].owner}
	}
	out = m.Step(e, now, out)
	for s := range m.callers {
		if from, to := phases[s], m.callers[s].phase; from != to {
			x.seen[transition{false, uint8(from), uint8(to), e.Kind, e.Answer}] = true
		}
	}
	for i := range m.claims {
		from, to := stages[i], m.claims[i].stage
		if to != free && from.owner != m.claims[i].owner {
			if from.stage != free {
				x.seen[transition{true, uint8(from.stage), uint8(free), e.Kind, e.Answer}] = true
			}
			from.stage = free
		}
		if from.stage != to {
			x.seen[transition{true, uint8(from.stage), uint8(to), e.Kind, e.Answer}] = true
		}
	}
	return out
}

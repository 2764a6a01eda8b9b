package judge

import "time"

// Service is what a busy server did before it stood still for a while, and some time
// after that.
type Service struct {
	Before, After int // grants, in spans of the same length
	Backlog       int // calls that a locker still has to undo
	Callers       int // that it has
}

// Recovered judges that the service comes back by itself, and that what was left to
// undo has been undone.
func Recovered(now time.Time, s Service) (found []Finding) {
	if 4*s.After < 3*s.Before || s.Before == 0 {
		found = append(found, finding("no service", now, "%d grants after the server stood still, and %d before it", s.After, s.Before))
	}
	if s.Backlog > s.Callers { // each may have left a moment ago
		found = append(found, finding("backlog stays", now, "%d calls of %d callers are still to be undone", s.Backlog, s.Callers))
	}
	return found
}

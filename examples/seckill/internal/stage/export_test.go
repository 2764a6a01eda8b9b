package stage

import "context"

// State is what the stage shows.
func (s *Stage) State(ctx context.Context) (*State, error) { return s.state(ctx) }

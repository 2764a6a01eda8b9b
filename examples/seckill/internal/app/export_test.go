package app

import "time"

// SetStopTimeout makes the service give up sooner what doesn't stop.
func (a *App) SetStopTimeout(d time.Duration) { a.stopTimeout = d }

// StopTimeout is how long the service may take to stop.
func (a *App) StopTimeout() time.Duration { return a.stopTimeout }

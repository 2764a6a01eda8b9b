package main

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch/core/lock"
)

// option is a flag with a duration.
type option struct {
	name  string
	value time.Duration
}

// sensible refuses durations that nobody can mean.
func sensible(options ...option) error {
	for _, o := range options {
		switch {
		case o.value < 0:
			return fmt.Errorf("--%s: must not be negative", o.name)
		case o.value > lock.MaxDuration:
			return fmt.Errorf("--%s: must be at most %v (a year)", o.name, lock.MaxDuration)
		}
	}
	return nil
}

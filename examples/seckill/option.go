package main

import (
	"fmt"
	"time"
)

// option is a flag with a duration.
type option struct {
	name  string
	value time.Duration
}

func notNegative(options ...option) error {
	for _, o := range options {
		if o.value < 0 {
			return fmt.Errorf("--%s: must not be negative", o.name)
		}
	}
	return nil
}

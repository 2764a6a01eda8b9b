//go:build !seckill_unguarded

package main

import "github.com/redlatch/redlatch/examples/seckill/internal/app"

// unguarded has no flags: the service can't be run without its guards.
type unguarded struct{}

func (unguarded) variant() app.Variant { return app.Variant{} }

// Package machine is the engine of one key in one locker, as a pure state machine: events
// go in, effects come out. It has no clock, context, mutex, goroutine or callback.
package machine

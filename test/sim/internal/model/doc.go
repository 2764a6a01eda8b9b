// Package model is a Redis server without a network: keys that expire, the
// commands that the scripts of redisstore use, and the scripts themselves, run
// by a Lua interpreter in Go. Its clock is whatever the caller says it is.
//
// A table test runs every command and every script against the model and
// against a real redis-server and compares the replies and the keys. Without
// that test the model would be a belief.
//
// Where Redis promises no order, the model has one that depends on the seed
// alone.
package model

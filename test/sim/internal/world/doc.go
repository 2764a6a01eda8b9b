// Package world simulates a fleet: some processes, each with its own lockers on
// the real go-redis client and the real scripts, one Redis, the network between
// them, and a nemesis that breaks all of it. One seed makes one world, which
// lives inside one testing/synctest bubble, so that a minute of it takes some
// hundredths of a second.
package world

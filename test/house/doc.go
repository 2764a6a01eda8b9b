// Package house tests the repository itself: what packages import, what modules
// require, and what every package and every test has.
package house

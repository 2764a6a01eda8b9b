// Package sim simulates fleets: several lockers on the real client and the real
// scripts, over a modelled Redis, network and processes, in virtual time. Its
// tests are the simulator; docs/simulation.md says how to run and read it.
package sim

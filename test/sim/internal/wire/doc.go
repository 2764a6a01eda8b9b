// Package wire is the network between a real Redis client and a simulated
// server, made to run inside a testing/synctest bubble.
//
// In a bubble, time moves on only when every goroutine waits durably, and one
// that waits for a mutex does not. The client holds mutexes while it dials, while
// it shakes hands and while it writes. So nothing of that waits for time here:
// a dial returns at once, a handshake is answered within the write, and a write
// only queues.
//
// Bytes of one direction of one connection keep their order, as in TCP. Between
// connections any order may come about: that is what makes calls late.
package wire

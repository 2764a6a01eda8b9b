// Package httpguard is what the doors for HTTP share, whichever framework they
// serve: the values of a request that make a key, the answers to a request
// that did not get its lock, and the settings of a middleware.
//
// It is for those who write a door. An application uses the doors themselves:
// ginlock for Gin, httplock for net/http and routers that follow it.
package httpguard

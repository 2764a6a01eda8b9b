// Package quorum is RedLock over any stores: a key is held by the owner that a
// majority of independent stores has granted it to. It needs no Redis: each
// node is a [lock.Store].
package quorum

package lock

import (
	"crypto/rand"
	"fmt"
)

// newClientID returns a random UUID: the first part of every owner of a locker,
// in the shape that Redisson's tools read. Its version is 8, and Redisson's is 4:
// a script knows by it what made a hold.
func newClientID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it aborts the program instead
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: key must not be empty", ErrInvalid)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("%w: key has %d bytes, the limit is %d", ErrInvalid, len(key), MaxKeyBytes)
	}
	return nil
}

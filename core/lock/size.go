package lock

import "fmt"

// wrongSize is the error of who names another size of a semaphore than permits that are held.
func wrongSize(permits, size, held int) error {
	return fmt.Errorf("%w: WithPermits(%d, %d): permits of the key are held that are of %d: all that take it name one size",
		ErrInvalid, permits, size, held)
}

package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/core/lock"
)

// Why a token was refused.
var (
	// ErrStale: the resource has seen a newer holder of the lock, or another one
	// with the same fence. Nothing was written. Repeating it won't help, unless
	// the lock is acquired anew.
	ErrStale = errors.New("fence is stale: the lock has a newer holder")
	// ErrMalformed: a string isn't a token, or a [Token] isn't one that could
	// have been made by [Of] or [New].
	ErrMalformed = errors.New("malformed fence token")
	// ErrForged: a token isn't signed for this lock by a secret that is known.
	ErrForged = errors.New("fence token is not signed as it must be")
)

const (
	// MaxFence is the largest fence: 63 bits, as a BIGINT of SQL has. Numbers of
	// JSON, Lua and JavaScript keep 53 only: there a fence travels as a string.
	MaxFence = 1<<63 - 1

	ownerDigits = 32
	maxText     = len("9223372036854775807;") + ownerDigits
)

// Token is what a holder shows to a resource.
type Token struct {
	// Fence is that of the grant, from 1 to [MaxFence]: larger than that of
	// every earlier grant of the lock.
	Fence uint64
	// Owner is a digest of the owner, 32 digits of lower-case hex.
	Owner string
}

// Of returns the token of a lease. A lease that others may share (modes [lock.Read]
// and [lock.Semaphore]) has none, as its fence says nothing about them:
// [lock.ErrUnsupported]. A nil lease is [lock.ErrNotHeld]. Of doesn't check whether the lease
// has ended.
func Of(lease *lock.Lease) (Token, error) {
	if lease == nil {
		err := fmt.Errorf("%w: there is no lease: call this with the context of lock.Locker.Do, of Lease.Context or of a handler behind a lock", lock.ErrNotHeld)
		return Token{}, &lock.Error{Op: "fence", Err: err}
	}
	if mode := lease.Mode(); mode == lock.Read || mode == lock.Semaphore {
		err := fmt.Errorf("%w: mode %s has several holders at once, none of which is the newest", lock.ErrUnsupported, mode)
		return Token{}, &lock.Error{Op: "fence", Key: lease.Key(), Err: err}
	}
	return New(lease.Fence(), lease.Owner()), nil
}

// New returns the token of a grant to owner, as [lock.Lease.Owner] names it. It
// is for locks that aren't taken through this kit; use [Of] otherwise.
func New(fence uint64, owner string) Token {
	sum := sha256.Sum256([]byte(owner))
	return Token{Fence: fence, Owner: hex.EncodeToString(sum[:ownerDigits/2])}
}

// Parse reads what [Token.String] writes, and nothing else: no spaces, signs,
// leading zeros or capitals. Its error is [ErrMalformed], without the string.
func Parse(text string) (Token, error) {
	if len(text) > maxText {
		return Token{}, fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxText)
	}
	number, owner, found := strings.Cut(text, ";")
	if !found {
		return Token{}, fmt.Errorf("%w: the form is <fence>;<owner>", ErrMalformed)
	}
	fence, err := strconv.ParseUint(number, 10, 64)
	if err != nil || strconv.FormatUint(fence, 10) != number {
		return Token{}, fmt.Errorf("%w: the fence is not a plain decimal number", ErrMalformed)
	}
	t := Token{Fence: fence, Owner: owner}
	return t, t.check()
}

// String returns the token as "<fence>;<owner>". The fence is a decimal number in
// a string, as some programs round long numbers.
func (t Token) String() string { return strconv.FormatUint(t.Fence, 10) + ";" + t.Owner }

// MarshalText implements [encoding.TextMarshaler]. Its error is [ErrMalformed].
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), t.check() }

// UnmarshalText implements [encoding.TextUnmarshaler] with [Parse]. An error leaves t as it is.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// check refuses a token that no grant can have: above all the zero value, of code
// that runs without a lock.
func (t Token) check() error {
	switch {
	case t.Fence == 0:
		return fmt.Errorf("%w: there is no fence", ErrMalformed)
	case t.Fence > MaxFence:
		return fmt.Errorf("%w: the fence has more than 63 bits", ErrMalformed)
	case len(t.Owner) != ownerDigits || strings.Trim(t.Owner, "0123456789abcdef") != "":
		return fmt.Errorf("%w: the owner is not %d digits of lower-case hex", ErrMalformed, ownerDigits)
	}
	return nil
}

// after reports whether t may claim after seen, the token of the last claim.
func (t Token) after(seen Token) bool { return t.Fence > seen.Fence || t == seen }

package lock

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Identity says to operators which process a locker is in. It must hold no secret:
// everybody who may read the store can read it.
type Identity struct {
	// Service is the name of the program, such as "checkout".
	Service string `json:"service,omitempty"`
	// Host and PID are where it runs. Default: this machine's name and this process.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
}

// String returns "service@host pid 812", without what isn't known.
func (id Identity) String() string {
	name := id.Service
	if id.Host != "" {
		name += "@" + id.Host
	}
	if id.PID != 0 {
		name = strings.TrimPrefix(name+" pid "+strconv.Itoa(id.PID), " ")
	}
	return name
}

// maxIdentity is how long each string of an [Identity] may be.
const maxIdentity = 256

func (id Identity) check() error {
	for _, field := range [...]string{id.Service, id.Host, id.Version} {
		if len(field) > maxIdentity {
			return fmt.Errorf("%w: WithIdentity: %d bytes in one field, the limit is %d", ErrInvalid, len(field), maxIdentity)
		}
		if strings.ContainsFunc(field, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%w: WithIdentity: %q has a control character", ErrInvalid, field)
		}
	}
	return nil
}

// WithIdentity makes the locker known to operators, in stores that are a [Registry]: from
// the first acquisition until [Locker.Close] it is registered in the store, and its Inspect
// and List name the holders that are. It also listens for forced releases: a hold that
// another locker takes away ends at once, and not at its next renewal. Empty fields of id
// for the host and the process are filled in. Where the store refuses either, locks work
// as without it. Only for [New].
func WithIdentity(id Identity) Option {
	return func(o *options) {
		o.onlyForNew("WithIdentity")
		if id.Host == "" {
			id.Host, _ = os.Hostname()
		}
		if id.PID == 0 {
			id.PID = os.Getpid()
		}
		if err := id.check(); err != nil {
			o.reject("%v", err)
		}
		o.identity = &id
	}
}

// Registration is what a locker with an [Identity] says of itself in the store.
type Registration struct {
	// Locker is the id of the locker, with which its owners begin.
	Locker string `json:"locker"`
	Identity
	// Since is when the locker was made.
	Since time.Time `json:"since"`
	// Holds are up to [MaxListed] of its holds, those first that it has had longest.
	// They may be 10 s old.
	Holds []Held `json:"holds,omitempty"`
}

// Held is one hold of a [Registration].
type Held struct {
	Owner string    `json:"owner"`
	Fence uint64    `json:"fence"`
	Since time.Time `json:"since"`
}

// LockerOf returns the id of the locker that made an owner; empty if it has none.
func LockerOf(owner string) string { return Claim{Owner: owner}.Locker() }

// Holder returns who made an owner or a waiter of the state, as far as it is registered.
func (s State) Holder(owner string) (Registration, bool) {
	r, ok := s.Lockers[LockerOf(owner)]
	return r, ok
}

// Zombie says that an owner was made by a locker of this package that isn't registered: its
// process has ended without releasing the hold, or has no [WithIdentity]. It is false where
// the registrations can't be read.
func (s State) Zombie(owner string) bool {
	locker := LockerOf(owner)
	_, registered := s.Lockers[locker]
	return s.Lockers != nil && !registered && ofThisPackage(locker)
}

// ofThisPackage says whether an id is of the version that [newClientID] makes.
func ofThisPackage(locker string) bool {
	const version = len("00000000-0000-")
	return len(locker) == len("00000000-0000-8000-8000-000000000000") && locker[version] == '8' && strings.Count(locker, "-") == 4
}

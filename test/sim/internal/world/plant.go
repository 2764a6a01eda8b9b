package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/test/sim/internal/model"
)

// Names of bugs that can be planted between the engine and the server. They are
// of kinds that lock libraries have shipped, and change no code of the library.
const (
	LIFO           = "lifo"            // a queue that serves the last first
	Stranded       = "stranded"        // wake-ups are lost, and nobody looks by himself
	NoUndo         = "no-undo"         // what nobody got is not released
	ExtendShortens = "extend-shortens" // a renewal sets the TTL, also to less
	OwnerReuse     = "owner-reuse"     // two holds of one owner id
	MessageGrants  = "message-grants"  // who hears a message has the lock
	NoEnd          = "no-end"          // a hold without a TTL
	Forgetful      = "forgetful"       // servers of a quorum that lose their data
	Unkept         = "unkept"          // a minimum hold is forgotten by the release
	Collapse       = "collapse"        // giving up costs more than the work did
	Unstepped      = "unstepped"       // a hand-off has the fence of the hold that it continues
	BlindRenew     = "blind-renew"     // a renewal looks at the key, not at its owner
	DeafRenew      = "deaf-renew"      // nobody hears that a renewal found nothing
	LateLoss       = "late-loss"       // renewals that were not answered, or found nothing, count
	Forgotten      = "forgotten"       // Close forgets holds
	Unended        = "unended"         // subscriptions are never ended
	Unlimited      = "unlimited"       // a renewal makes the hold last longer than it was to
	Unrepeated     = "unrepeated"      // a release that the server refuses counts as done
	Unlowered      = "unlowered"       // a writer who reads on stays one
	LoweredOnce    = "lowered-once"    // Lower is not repeated
	LowerRemoves   = "lower-removes"   // Lower takes the hold away
	LowerMakes     = "lower-makes"     // Lower makes a hold where there is none
	Overtaken      = "overtaken"       // a renewal that Lower has overtaken is believed
	Unhurried      = "unhurried"       // readers are renewed no sooner than others
	Recounted      = "recounted"       // a re-entry calls the store
	// Misdirected is a script that publishes on a wrong channel; its name follows.
	Misdirected = "misdirected:"
)

// wakers are the scripts that must wake who waits, and whose loss shows.
var wakers = []string{"release", "fair_release", "read_release", "write_release", "semaphore_release", "latch_count_down", "lower"}

// Bugs are the names of all bugs.
func Bugs() []string {
	all := []string{
		LIFO, Stranded, NoUndo, ExtendShortens, OwnerReuse, MessageGrants, NoEnd, Forgetful, Unkept, Collapse,
		Unstepped, BlindRenew, DeafRenew, LateLoss, Forgotten, Unended, Unlimited, Unrepeated,
		Unlowered, LoweredOnce, LowerRemoves, LowerMakes, Overtaken, Unhurried, Recounted,
	}
	for _, script := range wakers {
		all = append(all, Misdirected+script)
	}
	return all
}

// plant is a bug between the engine and the server; without a name it is none.
type plant struct {
	name  string
	world *World

	mu      sync.Mutex
	aliases map[string]string // by owner
	taken   map[string]string // owner by alias
	invited map[string]bool   // owners who heard a message
	closing map[int]bool      // lockers
	endings []func()          // of subscriptions that nobody has ended
}

func newPlant(name string, w *World) (*plant, error) {
	if name != "" && !slices.Contains(Bugs(), name) {
		return nil, fmt.Errorf("there is no bug %q", name)
	}
	return &plant{
		name: name, world: w, aliases: make(map[string]string), taken: make(map[string]string), invited: make(map[string]bool),
		closing: make(map[int]bool),
	}, nil
}

// in is what lockers use for a store.
func (p *plant) in(store lock.Store) lock.Store {
	switch p.name {
	case Collapse:
		return lock.Async(&collapse{lock.Blocking(store), p.world.ctx})
	case DeafRenew:
		return deafRenew{store}
	case LateLoss:
		return lateLoss{store}
	case Unended:
		return unended{store, p}
	case Unlimited:
		return unlimited{store}
	case Unrepeated:
		return unrepeated{store}
	case Unlowered:
		return unlowered{store}
	case LoweredOnce:
		return &loweredOnce{Store: store}
	case Overtaken:
		return &overtaken{Store: store, refuted: make(map[string]bool)}
	case Unhurried:
		return &unhurried{Store: store, last: make(map[string]renewed)}
	}
	return store
}

// deafRenew takes each answer to a renewal for a good one.
type deafRenew struct{ lock.Store }

func (s deafRenew) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	s.Store.Renew(ctx, claims, func(i int, err error) {
		if errors.Is(err, lock.ErrNotHeld) {
			err = nil
		}
		report(i, err)
	})
}

// lateLoss takes a renewal that was not answered, or that found no hold, for a good one: the
// loss will show at some later renewal.
type lateLoss struct{ lock.Store }

func (s lateLoss) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	s.Store.Renew(ctx, claims, func(i int, err error) {
		if !errors.Is(err, lock.ErrInvalid) {
			err = nil
		}
		report(i, err)
	})
}

// unlimited renews each hold for half a minute.
type unlimited struct{ lock.Store }

func (s unlimited) Renew(ctx context.Context, claims []lock.Claim, report func(i int, err error)) {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].TTL = max(claims[i].TTL, lock.DefaultWatchdog)
	}
	s.Store.Renew(ctx, claims, report)
}

// unrepeated takes a release that is refused for one that is done.
type unrepeated struct{ lock.Store }

func (s unrepeated) Release(ctx context.Context, c lock.Claim, by time.Time, answer lock.Answer) {
	s.Store.Release(ctx, c, by, lock.AnswerFunc(func(fence uint64, err error) {
		var refused *lock.StoreError
		if errors.As(err, &refused) && refused.Outcome == lock.OutcomeRefused {
			err = nil
		}
		answer.Answered(fence, err)
	}))
}

// unended ends no subscription before the world ends.
type unended struct {
	lock.Store
	plant *plant
}

func (s unended) Watch(ctx context.Context, c lock.Claim, wake func()) (stop func(), err error) {
	end, err := s.Store.Watch(ctx, c, wake)
	if err != nil {
		return nil, err
	}
	s.plant.mu.Lock()
	defer s.plant.mu.Unlock()
	s.plant.endings = append(s.plant.endings, end)
	return func() {}, nil
}

// uproot ends what would outlast the world.
func (p *plant) uproot() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.endings {
		end()
	}
}

// closes notes that a locker is being closed.
func (p *plant) closes(locker int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing[locker] = true
}

// forgets says whether a release is to be lost: that of a locker that closes.
func (p *plant) forgets(e *execution) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for locker := range p.closing {
		if p.world.belongs(e.owner(), locker) {
			return true
		}
	}
	return false
}

// fence is what a caller sees of one.
func (p *plant) fence(fence uint64) uint64 {
	if p.name == Unstepped {
		return fence - fence%lock.FenceStep
	}
	return fence
}

// counts makes the call that a re-entry needs which is counted in the store.
func (p *plant) counts(ctx context.Context, lease *lock.Lease) {
	if p.name == Recounted {
		_ = lease.Extend(ctx, lock.MinLease)
	}
}

// muted says whether a message on a channel is lost.
func (p *plant) muted(string) bool { return p.name == Stranded }

// heard notes a message.
func (p *plant) heard(channel string, listeners int) {
	if owner := ownerIn(channel); p.name == MessageGrants && owner != "" && listeners > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.invited[owner] = true
	}
}

// run executes a script, or what the bug makes of it.
func (p *plant) run(e *execution, run func(keys, args []string) model.Reply) model.Reply {
	keys := p.world.server.keys
	keys.Intercept = func(args []string) []string { return p.command(e, args) }
	defer func() { keys.Intercept = nil }()
	switch {
	case p.name == NoUndo && strings.HasSuffix(e.script, "release") && e.script != "force_release" && p.nobodys(e):
		return int64(1)
	case p.name == MessageGrants && e.script == "fair_acquire" && p.accepts(e):
		return keys.Time().UnixMicro()
	case p.name == Unkept && e.script == "release" && len(e.args) > 3:
		return run(e.keys, e.args[:3])
	case p.name == Forgotten && strings.HasSuffix(e.script, "release") && e.script != "force_release" && p.forgets(e):
		return int64(1)
	case p.name == BlindRenew && strings.Contains(e.script, "renew"):
		return confirmed(run(e.keys, e.args), func(i int) bool { return keys.Exists(e.keys[i]) })
	case p.name == LowerRemoves && e.script == "lower":
		reply := run(e.keys, e.args)
		keys.Do("hdel", e.keys[0], e.owner())
		return reply
	case p.name == LowerMakes && e.script == "lower":
		keys.Do("hset", e.keys[0], "mode", "read", e.owner(), "1")
		keys.Do("set", e.keys[1], "1", "px", e.args[1])
		keys.Do("hdel", e.keys[0], e.owner()+writeMark)
		keys.Do("pexpire", e.keys[0], e.args[1])
		return int64(1)
	case p.name == OwnerReuse:
		reply := run(p.rename(e.keys), p.rename(e.args))
		p.free(e)
		return reply
	}
	return run(e.keys, e.args)
}

// command changes what a script does.
func (p *plant) command(e *execution, args []string) []string {
	script, name := e.script, strings.ToLower(args[0])
	switch {
	case p.name == LIFO && name == "rpush" && strings.HasPrefix(args[1], "redisson_lock_queue:"):
		return append([]string{"lpush"}, args[1:]...)
	case p.name == ExtendShortens && name == "pttl" && strings.Contains(script, "renew"):
		return []string{"pttl", "there is no such key"}
	case p.name == ExtendShortens && name == "pexpire" && strings.Contains(script, "renew"):
		return args[:3] // without conditions
	case p.name == Misdirected+script && strings.HasSuffix(name, "publish"):
		return []string{name, args[1] + "?", args[2]}
	case p.name == NoEnd && name == "pexpire" && strings.HasSuffix(script, "acquire"):
		return []string{"exists", args[1]}
	}
	return args
}

// confirmed makes good answers of bad ones.
func confirmed(reply model.Reply, exists func(i int) bool) model.Reply {
	answers, many := reply.([]model.Reply)
	if !many {
		if reply == model.Reply(int64(0)) && exists(0) {
			return int64(1)
		}
		return reply
	}
	for i, answer := range answers {
		if answer == model.Reply(int64(0)) && exists(i) {
			answers[i] = int64(1)
		}
	}
	return answers
}

// nobodys says whether a release is of a hold that no caller got.
func (p *plant) nobodys(e *execution) bool {
	owner := e.owner()
	return owner != "" && !p.world.ledger.wasGranted(owner)
}

// accepts says whether an acquire is of an owner who heard a message.
func (p *plant) accepts(e *execution) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	owner := e.owner()
	invited := p.invited[owner]
	delete(p.invited, owner)
	return invited
}

// alias is the name of an owner in the server.
func (p *plant) alias(owner string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alias, ok := p.aliases[owner]; ok {
		return alias
	}
	return owner
}

// rename gives owners the name of one of the same locker that is free.
func (p *plant) rename(args []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	renamed := make([]string, len(args))
	for i, arg := range args {
		renamed[i] = ownerPattern.ReplaceAllStringFunc(arg, p.choose)
	}
	return renamed
}

// choose finds the first free alias; mu is held.
func (p *plant) choose(owner string) string {
	if alias, ok := p.aliases[owner]; ok {
		return alias
	}
	client, _, _ := strings.Cut(owner, ":")
	for n := 1; ; n++ {
		alias := fmt.Sprintf("%s:%d", client, n)
		if p.taken[alias] == "" {
			p.taken[alias], p.aliases[owner] = owner, alias
			return alias
		}
	}
}

// free gives an alias to others when its hold is released.
func (p *plant) free(e *execution) {
	p.mu.Lock()
	defer p.mu.Unlock()
	owner := e.owner()
	if alias := p.aliases[owner]; strings.HasSuffix(e.script, "release") && p.taken[alias] == owner {
		delete(p.taken, alias)
	}
}

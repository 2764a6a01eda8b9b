package world

import (
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
)

// Bugs are the names of all bugs.
func Bugs() []string {
	return []string{LIFO, Stranded, NoUndo, ExtendShortens, OwnerReuse, MessageGrants, NoEnd, Forgetful, Unkept, Collapse}
}

// plant is a bug between the engine and the server; without a name it is none.
type plant struct {
	name  string
	world *World
	poll  time.Duration // of the lockers; 0: as they are

	mu      sync.Mutex
	aliases map[string]string // by owner
	taken   map[string]string // owner by alias
	invited map[string]bool   // owners who heard a message
}

func newPlant(name string, w *World) (*plant, error) {
	if name != "" && !slices.Contains(Bugs(), name) {
		return nil, fmt.Errorf("there is no bug %q", name)
	}
	p := &plant{
		name: name, world: w, aliases: make(map[string]string), taken: make(map[string]string), invited: make(map[string]bool),
	}
	if name == Stranded {
		p.poll = time.Minute
	}
	return p, nil
}

// in is what lockers use for a store.
func (p *plant) in(store lock.Store) lock.Store {
	if p.name == Collapse {
		return &collapse{store, p.world.ctx}
	}
	return store
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
	case p.name == Unkept && e.script == "release" && len(e.args) > 4:
		return run(e.keys, e.args[:4])
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
	case p.name == NoEnd && name == "pexpire" && strings.HasSuffix(script, "acquire"):
		return []string{"exists", args[1]}
	}
	return args
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

package faultproxy

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Match decides whether a rule applies to a request. It runs on the goroutine
// that forwards the connection, under no lock, and must not keep the slice.
type Match func(request []byte) bool

// Any matches every request.
func Any([]byte) bool { return true }

// Contains matches a request that contains all of the strings, whatever their
// case. The strings of a RESP request are sent verbatim, so the name of a command,
// a key and the SHA of a script can be found this way.
func Contains(texts ...string) Match {
	lowered := make([][]byte, len(texts))
	for i, text := range texts {
		lowered[i] = []byte(strings.ToLower(text))
	}
	return func(request []byte) bool {
		request = bytes.ToLower(request)
		return !slices.ContainsFunc(lowered, func(text []byte) bool {
			return !bytes.Contains(request, text)
		})
	}
}

type verdict int

const (
	forward verdict = iota
	cutRequest
	cutReply
	cutMidway
	answerRequest
)

// Rule is a fault that waits for its request.
type Rule struct {
	proxy   *Proxy
	match   Match
	verdict verdict
	answer  []byte

	mu    sync.Mutex
	left  int // negative: without limit
	hits  int
	first chan struct{}
}

// CutRequest cuts the connection that sends the next request, before the server
// sees a byte of it.
func (p *Proxy) CutRequest() *Rule { return p.CutRequestWhen(Any, 1) }

// CutReply forwards the next request, drops the reply and cuts the connection:
// the server executed it, the client never knew.
func (p *Proxy) CutReply() *Rule { return p.CutReplyWhen(Any, 1) }

// CutRequestWhen is [Proxy.CutRequest] for the next requests that match, as
// often as times says; a negative number means always.
func (p *Proxy) CutRequestWhen(match Match, times int) *Rule {
	return p.addRule(&Rule{match: match, left: times, verdict: cutRequest})
}

// CutReplyWhen is [Proxy.CutReply] for the next requests that match, as often as
// times says; a negative number means always.
func (p *Proxy) CutReplyWhen(match Match, times int) *Rule {
	return p.addRule(&Rule{match: match, left: times, verdict: cutReply})
}

// CutMidwayWhen forwards the first half of the next request that matches, drops
// the reply and cuts the connection: of a pipeline, the server executed the first
// scripts, and the client knows of none.
func (p *Proxy) CutMidwayWhen(match Match) *Rule {
	return p.addRule(&Rule{match: match, left: 1, verdict: cutMidway})
}

// AnswerWhen answers requests that match with one line and doesn't forward
// them, for instance "-OOM command not allowed when used memory > 'maxmemory'".
// A pipeline is answered with one line too: match single commands.
func (p *Proxy) AnswerWhen(match Match, times int, line string) *Rule {
	return p.addRule(&Rule{match: match, left: times, verdict: answerRequest, answer: []byte(line + "\r\n")})
}

// Observe counts requests that match and changes nothing.
func (p *Proxy) Observe(match Match) *Rule {
	return p.addRule(&Rule{match: match, left: -1, verdict: forward})
}

// Arrivals counts from now on how often clients have sent the text, and in how many
// requests; what is held up counts too. A text that is split over two requests isn't seen.
func (p *Proxy) Arrivals(text string) func() (times, requests int) {
	var count struct {
		sync.Mutex
		times, requests int
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrive = func(request []byte) {
		if n := bytes.Count(request, []byte(text)); n > 0 {
			count.Lock()
			defer count.Unlock()
			count.times += n
			count.requests++
		}
	}
	return func() (times, requests int) {
		count.Lock()
		defer count.Unlock()
		return count.times, count.requests
	}
}

func (p *Proxy) arrived(request []byte) {
	p.mu.Lock()
	arrive := p.arrive
	p.mu.Unlock()
	if arrive != nil {
		arrive(request)
	}
}

func (p *Proxy) addRule(r *Rule) *Rule {
	r.proxy, r.first = p, make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Hits is how often the rule has applied.
func (r *Rule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// Hit is closed when the rule has applied for the first time.
func (r *Rule) Hit() <-chan struct{} { return r.first }

// Remove ends the rule. A second call does nothing.
func (r *Rule) Remove() {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	// A copy, as judge walks over the old slice without the lock.
	r.proxy.rules = slices.DeleteFunc(slices.Clone(r.proxy.rules), func(other *Rule) bool { return other == r })
}

// judge tries the rules in the order in which they were added. The first fault
// that applies decides.
func (p *Proxy) judge(l *link, request []byte) (verdict, []byte) {
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	for _, r := range rules {
		if r.match(request) && r.take(l) && r.verdict != forward {
			return r.verdict, r.answer
		}
	}
	return forward, nil
}

func (r *Rule) take(l *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 {
		return false
	}
	if r.left > 0 {
		r.left--
	}
	if r.verdict == cutRequest || r.verdict == cutReply || r.verdict == cutMidway {
		l.doomed.Store(true)
	}
	if r.hits++; r.hits == 1 {
		close(r.first)
	}
	return true
}

package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

type sortedSet struct{ scores map[string]float64 }

func newSortedSet() *sortedSet { return &sortedSet{scores: make(map[string]float64)} }

type member struct {
	name  string
	score float64
}

// sorted returns the members by score, and by name where scores are equal.
func (z *sortedSet) sorted() []member {
	if z == nil {
		return nil
	}
	all := make([]member, 0, len(z.scores))
	for name, score := range z.scores {
		all = append(all, member{name, score})
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
	return all
}

var sortedSetCommands = map[string]command{
	"zadd":             {-4, (*Keyspace).zadd},
	"zrem":             {-3, (*Keyspace).zrem},
	"zcard":            {2, (*Keyspace).zcard},
	"zscore":           {3, (*Keyspace).zscore},
	"zcount":           {4, (*Keyspace).zcount},
	"zrange":           {-4, (*Keyspace).zrange},
	"zrangebyscore":    {-4, (*Keyspace).zrangebyscore},
	"zremrangebyscore": {4, (*Keyspace).zremrangebyscore},
}

// zadd knows NX, XX, GT, LT and CH, and any number of members.
func (k *Keyspace) zadd(args []string) Reply {
	rest, options := args[1:], make(map[string]bool)
	for len(rest) > 0 && slices.Contains([]string{"NX", "XX", "GT", "LT", "CH"}, strings.ToUpper(rest[0])) {
		options[strings.ToUpper(rest[0])], rest = true, rest[1:]
	}
	if len(rest) == 0 || len(rest)%2 != 0 {
		return errSyntax
	}
	scores := make([]float64, len(rest)/2)
	for i := range scores {
		score, ok := parseScore(rest[2*i])
		if !ok {
			return errNotFloat
		}
		scores[i] = score
	}
	z, ok := typed[*sortedSet](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case z == nil && options["XX"]:
		return int64(0)
	}
	z, _ = made(k, args[0], newSortedSet)
	var added, changed int64
	for i, score := range scores {
		old, there := z.scores[rest[2*i+1]]
		switch {
		case !there && options["XX"], there && options["NX"],
			there && options["GT"] && score <= old, there && options["LT"] && score >= old:
			continue
		case !there:
			added++
		case score != old:
			changed++
		}
		z.scores[rest[2*i+1]] = score
	}
	if options["CH"] {
		return added + changed
	}
	return added
}

func parseScore(text string) (float64, bool) {
	score, err := strconv.ParseFloat(text, 64)
	return score, err == nil && !math.IsNaN(score)
}

func (k *Keyspace) zrem(args []string) Reply {
	z, ok := typed[*sortedSet](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case z == nil:
		return int64(0)
	}
	var n int64
	for _, name := range args[1:] {
		if _, there := z.scores[name]; there {
			delete(z.scores, name)
			n++
		}
	}
	if len(z.scores) == 0 {
		delete(k.keys, args[0])
	}
	return n
}

func (k *Keyspace) zcard(args []string) Reply {
	z, ok := typed[*sortedSet](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case z == nil:
		return int64(0)
	}
	return int64(len(z.scores))
}

func (k *Keyspace) zscore(args []string) Reply {
	z, ok := typed[*sortedSet](k, args[0])
	switch {
	case !ok:
		return errWrongType
	case z == nil:
		return nil
	}
	score, there := z.scores[args[1]]
	if !there {
		return nil
	}
	return float(score)
}

func (k *Keyspace) zrange(args []string) Reply {
	scores, ok := withScores(args[3:])
	if !ok {
		return errSyntax
	}
	first, ok1 := integer(args[1])
	last, ok2 := integer(args[2])
	if !ok1 || !ok2 {
		return errNotInteger
	}
	z, ok := typed[*sortedSet](k, args[0])
	if !ok {
		return errWrongType
	}
	all := z.sorted()
	from, to := bounds(first, last, len(all))
	return listed(all[from:to], scores)
}

func withScores(options []string) (scores, ok bool) {
	if len(options) == 0 {
		return false, true
	}
	scores = len(options) == 1 && strings.EqualFold(options[0], "withscores")
	return scores, scores
}

func listed(members []member, scores bool) Reply {
	all := []Reply{}
	for _, m := range members {
		all = append(all, m.name)
		if scores {
			all = append(all, float(m.score))
		}
	}
	return all
}

// interval is a range of scores as ZRANGEBYSCORE writes it.
type interval struct {
	low, high         float64
	openLow, openHigh bool
}

func parseInterval(low, high string) (in interval, ok bool) {
	var ok1, ok2 bool
	low, in.openLow = strings.CutPrefix(low, "(")
	high, in.openHigh = strings.CutPrefix(high, "(")
	in.low, ok1 = parseScore(low)
	in.high, ok2 = parseScore(high)
	return in, ok1 && ok2
}

func (in interval) has(score float64) bool {
	above := score > in.low || !in.openLow && score == in.low
	below := score < in.high || !in.openHigh && score == in.high
	return above && below
}

// within returns the members in an interval.
func (k *Keyspace) within(args []string) (members []member, wrong Reply) {
	in, ok := parseInterval(args[1], args[2])
	if !ok {
		return nil, Error("ERR min or max is not a float")
	}
	z, ok := typed[*sortedSet](k, args[0])
	if !ok {
		return nil, errWrongType
	}
	return slices.DeleteFunc(z.sorted(), func(m member) bool { return !in.has(m.score) }), nil
}

func (k *Keyspace) zcount(args []string) Reply {
	members, wrong := k.within(args)
	if wrong != nil {
		return wrong
	}
	return int64(len(members))
}

func (k *Keyspace) zrangebyscore(args []string) Reply {
	members, wrong := k.within(args)
	if wrong != nil {
		return wrong
	}
	options := args[3:]
	scores := len(options) > 0 && strings.EqualFold(options[0], "withscores")
	if scores {
		options = options[1:]
	}
	if len(options) == 3 && strings.EqualFold(options[0], "limit") {
		skip, ok1 := integer(options[1])
		count, ok2 := integer(options[2])
		if !ok1 || !ok2 || skip < 0 {
			return errNotInteger
		}
		members = members[min(int(skip), len(members)):]
		if count >= 0 {
			members = members[:min(int(count), len(members))]
		}
		options = nil
	}
	if len(options) > 0 {
		return errSyntax
	}
	return listed(members, scores)
}

func (k *Keyspace) zremrangebyscore(args []string) Reply {
	members, wrong := k.within(args)
	if wrong != nil {
		return wrong
	}
	for _, m := range members {
		k.zrem([]string{args[0], m.name})
	}
	return int64(len(members))
}

package nemesis

import "slices"

// Silent is in a look in which a server didn't answer.
const Silent = "?"

// Looks feeds looks at the masters, each of a millisecond and a second after
// the one before, and returns the spans in which they changed, in seconds.
func Looks(want int, looks ...[]string) (spans [][2]int64) {
	const second = int64(1e9)
	m := &masters{want: want, note: func(from, to int64) { spans = append(spans, [2]int64{from / second, to / second}) }}
	for i, now := range looks {
		said := slices.DeleteFunc(slices.Clone(now), func(one string) bool { return one == Silent })
		m.saw(said, len(said) == len(now), int64(i)*second, int64(i)*second+1e6)
	}
	m.finish(int64(len(looks)) * second)
	return spans
}

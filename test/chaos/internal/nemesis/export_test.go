package nemesis

// Looks feeds looks at the masters, each of a millisecond and a second after
// the one before, and returns the spans in which they changed, in seconds.
func Looks(want int, looks ...[]string) (spans [][2]int64) {
	const second = int64(1e9)
	m := &masters{want: want, note: func(from, to int64) { spans = append(spans, [2]int64{from / second, to / second}) }}
	for i, now := range looks {
		m.saw(now, int64(i)*second, int64(i)*second+1e6)
	}
	m.finish(int64(len(looks)) * second)
	return spans
}

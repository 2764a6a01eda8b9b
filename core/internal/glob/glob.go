// Package glob matches strings with the patterns of Redis, as lock.Lister has them.
package glob

// Match says whether s matches a pattern.
func Match(pattern, s string) bool {
	for pattern != "" {
		if pattern[0] == '*' {
			for pattern != "" && pattern[0] == '*' {
				pattern = pattern[1:]
			}
			for i := range len(s) + 1 {
				if Match(pattern, s[i:]) {
					return true
				}
			}
			return false
		}
		if s == "" {
			return false
		}
		rest, ok := matchByte(pattern, s[0])
		if !ok {
			return false
		}
		pattern, s = rest, s[1:]
	}
	return s == ""
}

// matchByte matches one byte with the begin of a pattern that is neither empty nor *.
func matchByte(pattern string, b byte) (rest string, ok bool) {
	switch pattern[0] {
	case '?':
		return pattern[1:], true
	case '[':
		return matchSet(pattern[1:], b)
	case '\\':
		if len(pattern) > 1 {
			pattern = pattern[1:]
		}
	}
	return pattern[1:], pattern[0] == b
}

// matchSet matches one byte with a set, whose [ was read. One without ] goes on to the end.
func matchSet(pattern string, b byte) (rest string, ok bool) {
	not := pattern != "" && pattern[0] == '^'
	if not {
		pattern = pattern[1:]
	}
	for pattern != "" && pattern[0] != ']' {
		if pattern[0] == '\\' && len(pattern) > 1 {
			pattern = pattern[1:]
		}
		low, high := pattern[0], pattern[0]
		if len(pattern) > 2 && pattern[1] == '-' {
			low, high = min(low, pattern[2]), max(high, pattern[2])
			pattern = pattern[2:]
		}
		ok = ok || low <= b && b <= high
		pattern = pattern[1:]
	}
	if pattern != "" {
		pattern = pattern[1:]
	}
	return pattern, ok != not
}

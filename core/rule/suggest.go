package rule

import "strconv"

// didYouMean is "" or a hint at the known name that is nearest to the given one.
func didYouMean(given string, known []string) string {
	if nearest := Nearest(given, known); nearest != "" {
		return ", did you mean " + strconv.Quote(nearest) + "?"
	}
	return ""
}

// Nearest returns the one of known that given is most likely a misspelling of,
// and "" when none is near. For error messages.
func Nearest(given string, known []string) string {
	best, nearest := len(given)/3+2, ""
	if len(given) > maxSuggested {
		return ""
	}
	for _, name := range known {
		if len(name) > maxSuggested {
			continue
		}
		if d := distance(given, name); d < best {
			best, nearest = d, name
		}
	}
	return nearest
}

// maxSuggested keeps a hostile name from costing time.
const maxSuggested = 300

// distance is the Levenshtein distance in bytes, upper and lower case being half
// as far apart as other letters.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = 2 * j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = 2 * (i + 1)
		for j := range len(b) {
			replaced := diagonal + cost(a[i], b[j])
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+2, row[j+1]+2)
		}
	}
	return row[len(b)] / 2
}

func cost(a, b byte) int {
	switch {
	case a == b:
		return 0
	case a|0x20 == b|0x20 && 'a' <= a|0x20 && a|0x20 <= 'z':
		return 1
	}
	return 2
}

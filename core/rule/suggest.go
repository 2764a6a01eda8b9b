package rule

import "strconv"

// DidYouMean returns the end of a message about an unknown name, with the known
// name that was probably meant: `, did you mean "orders"?`. It is empty if no known
// name is similar.
func DidYouMean(given string, known []string) string {
	if nearest := nearest(given, known); nearest != "" {
		return ", did you mean " + strconv.Quote(nearest) + "?"
	}
	return ""
}

func nearest(given string, known []string) string {
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

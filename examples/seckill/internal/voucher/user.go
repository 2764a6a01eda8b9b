package voucher

import "strings"

// MaxUser is the longest id of a user, in bytes.
const MaxUser = 64

// IsUser reports whether id is 1 to [MaxUser] visible ASCII characters. One
// spelling is one user: nothing is trimmed or folded.
func IsUser(id string) bool {
	hidden := func(r rune) bool { return r < '!' || r > '~' }
	return id != "" && len(id) <= MaxUser && !strings.ContainsFunc(id, hidden)
}

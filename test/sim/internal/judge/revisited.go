package judge

import (
	"fmt"
	"time"
)

// mayRevisit are the keys that a script may name after it has removed them, and
// why: if it fails there, nothing is lost but what has ended anyway.
var mayRevisit = map[string]string{
	"fair_acquire KEYS[2]": "nothing but a place is lost",
	"fair_acquire KEYS[3]": "the same",
	"fair_release KEYS[2]": "the same: the hold is released after that",
	"fair_release KEYS[3]": "the same",
}

// Revisited judges that a script leaves a key alone that it has removed itself.
// key is n of KEYS[n].
func Revisited(now time.Time, script string, key int, command string) []Finding {
	if _, ok := mayRevisit[fmt.Sprintf("%s KEYS[%d]", script, key)]; ok {
		return nil
	}
	return []Finding{finding("looks at what it removed", now, "KEYS[%d] of %s: %s comes after the script removed the key", key, script, command)}
}

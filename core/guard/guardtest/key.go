package guardtest

import (
	"net/url"
	"strings"
	"testing"
)

// WantParts checks that a key, which a template with ":" between its parts made, has
// these values in these places and no others, and no byte that means something to a
// store.
func WantParts(t testing.TB, key string, values ...string) {
	t.Helper()
	parts := strings.Split(key, ":")
	if len(parts) != len(values) {
		t.Fatalf("the key %q has %d parts, want %d", key, len(parts), len(values))
	}
	for i, part := range parts {
		if value, err := url.PathUnescape(part); err != nil || value != values[i] || strings.ContainsAny(part, "{}*<>\x00\r\n ") {
			t.Errorf("part %d of %q is not %q: %v", i, key, values[i], err)
		}
	}
}

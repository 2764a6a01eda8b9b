package lockgen

import (
	"go/token"
	"strconv"
)

// names are identifiers that mean something already.
type names map[string]bool

func newNames(taken ...string) names {
	n := make(names)
	for _, name := range taken {
		n.add(name)
	}
	return n
}

// add makes a name mean something.
func (n names) add(name string) { n[name] = true }

// take returns the name, or one like it if it means something already, and
// makes it mean something.
func (n names) take(name string) string {
	free := name
	for i := 2; n[free] || token.IsKeyword(free) || free == "_" || free == ""; i++ {
		free = name + strconv.Itoa(i)
	}
	n.add(free)
	return free
}

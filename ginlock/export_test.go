package ginlock

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/redlatch/redlatch/core/guard/httpguard"
)

// JSONField is for the fuzz test: the field of a body that is text.
func JSONField(text []byte, path []string) (string, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return httpguard.BodyField(header, strings.Join(path, "."), func() ([]byte, error) { return text, nil })
}

// CanReadRoutes reports whether engine, a pointer, has its routes where Gin
// has them.
func CanReadRoutes(engine any) bool {
	_, ok := readTrees(reflect.ValueOf(engine).Elem())
	return ok
}

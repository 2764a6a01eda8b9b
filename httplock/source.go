package httplock

import (
	"fmt"
	"net/http"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

// Source finds a value in a request. It returns [key.ErrMissing] when there
// is none and [key.ErrAmbiguous] when there are several; other errors are the
// request's fault as well, unless they wrap [guard.ErrUnresolvable].
type Source func(r *http.Request) (string, error)

// Path is a path value. It asks [http.Request.PathValue], not [WithPathValue].
func Path(name string) Source {
	return func(r *http.Request) (string, error) {
		value, ok := pathValueOf(r, name)
		if !ok {
			return "", fmt.Errorf("%w: the route has no path value %q", guard.ErrUnresolvable, name)
		}
		return value, nil
	}
}

// Query is a query parameter. One that is there twice is refused: the handler
// may read the other one.
func Query(name string) Source {
	return func(r *http.Request) (string, error) { return httpguard.Only(r.URL.Query()[name]) }
}

// Header is a request header. One that is there twice is refused.
func Header(name string) Source {
	return func(r *http.Request) (string, error) { return httpguard.Only(r.Header.Values(name)) }
}

// Cookie is a cookie, unescaped as in a query. One that is there twice is
// refused.
func Cookie(name string) Source {
	return func(r *http.Request) (string, error) { return httpguard.Cookie(r, name) }
}

// Ctx is a value that the request's context has under that key. Texts,
// integers and booleans are taken as they are; other types need a MarshalText
// or String method.
func Ctx(key any) Source {
	return func(r *http.Request) (string, error) { return guard.Text(r.Context().Value(key)) }
}

package httpguard

import (
	"net/http"
	"net/url"

	"github.com/redlatch/redlatch/core/key"
)

// Only is the single value of a list. A second one is refused, even one that
// is the same: the handler may read the other.
func Only(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", key.ErrMissing
	case 1:
		return values[0], nil
	}
	return "", key.ErrAmbiguous
}

// Cookie is the only cookie of that name, unescaped as in a query.
func Cookie(r *http.Request, name string) (string, error) {
	cookies := r.CookiesNamed(name)
	if len(cookies) > 1 {
		return "", key.ErrAmbiguous
	}
	if len(cookies) == 0 {
		return "", key.ErrMissing
	}
	value, err := url.QueryUnescape(cookies[0].Value)
	if err != nil {
		return "", key.ErrInvalid
	}
	return value, nil
}

package httpguard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Source finds a value in a request. It returns [key.ErrMissing] when there is
// none and [key.ErrAmbiguous] when there are several. Other errors are the
// request's fault as well (400), unless they wrap [guard.ErrUnresolvable].
type Source func(Request) (string, error)

// noRoute is the fault of a lock that requests pass before their route is known, or that none
// has: its key has no path parameters. It wraps [rule.ErrInvalid].
func noRoute(name string) error {
	return fmt.Errorf("%w: a request has no route in front of the router, and so no <%s>: put the lock around the handler of a route; "+
		"if a middleware in front sets the name, say so by WithProvided; %s", rule.ErrInvalid, name, unsaid)
}

// unsaid is for routers of net/http that keep the route to themselves.
const unsaid = "where the router keeps its routes to itself, as Echo 4 and go-zero do, a middleware in front sets Request.Pattern (docs/http.md)"

// Path is a path parameter.
func Path(name string) Source {
	return func(q Request) (string, error) {
		value, ok := q.PathValue(name)
		switch {
		case ok:
		case q.Pattern() == "":
			return "", noRoute(name)
		default:
			return "", fmt.Errorf("%w: the route has no parameter %q", guard.ErrUnresolvable, name)
		}
		return value, nil
	}
}

// Query is a query parameter. A repeated one is refused, and so is a query that
// net/http can't parse: a part with a ";" or a broken escape would be dropped.
func Query(name string) Source {
	return func(q Request) (string, error) {
		values, err := url.ParseQuery(q.HTTP().URL.RawQuery)
		if err != nil {
			return "", key.ErrInvalid
		}
		return only(values[name])
	}
}

// Header is a request header. A repeated one is refused.
func Header(name string) Source {
	return func(q Request) (string, error) { return only(q.HTTP().Header.Values(name)) }
}

// Cookie is a cookie, unescaped as in a query. A repeated one is refused.
func Cookie(name string) Source {
	return func(q Request) (string, error) {
		cookies := q.HTTP().CookiesNamed(name)
		switch len(cookies) {
		case 0:
			return "", key.ErrMissing
		case 1:
			value, err := url.QueryUnescape(cookies[0].Value)
			if err != nil {
				return "", key.ErrInvalid
			}
			return value, nil
		}
		return "", key.ErrAmbiguous
	}
}

// maxForm is the largest body that net/http parses as a form. Of a larger one a
// handler's FormValue would find the query's value instead.
const maxForm = 10 << 20

// Form is a field of a URL-encoded body. Only a POST, PUT or PATCH has one: the
// form of net/http ignores other bodies. Where an earlier middleware has parsed
// the form, that form counts. A body above 10 MiB is too large, whatever
// [WithMaxBody] says: net/http doesn't parse it.
func Form(name string) Source {
	return func(q Request) (string, error) {
		r := q.HTTP()
		if !hasForm(r.Method) {
			return "", errFormMethod
		}
		if r.PostForm != nil {
			return only(r.PostForm[name])
		}
		if mediaType(r.Header) != "application/x-www-form-urlencoded" {
			return "", errBodyType
		}
		text, err := bodyOf(q)
		if err != nil {
			return "", err
		}
		if len(text) > maxForm {
			return "", &http.MaxBytesError{Limit: maxForm}
		}
		form, err := url.ParseQuery(string(text))
		if err != nil {
			return "", key.ErrInvalid
		}
		return only(form[name])
	}
}

func hasForm(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// Body is the field at a dotted path of a JSON body: a string, an integer or a
// boolean. It refuses other values, integers beyond ±(2^53-1), which parsers read
// in different ways, a member that appears twice, in whatever case, and a body of
// another type.
func Body(path string) Source {
	names := strings.Split(path, ".")
	return func(q Request) (string, error) {
		media := mediaType(q.HTTP().Header)
		if media != "application/json" && !strings.HasSuffix(media, "+json") {
			return "", errBodyType
		}
		text, err := bodyOf(q)
		if err != nil {
			return "", err
		}
		return jsonField(text, names)
	}
}

// Ctx is the value that an earlier middleware set under that key. [guard.KeyPart]
// says which types can be part of a key. A key of an unexported type is the safe
// way to name a value; bind it with [WithVar]. A value that isn't there is a fault of the
// program ([guard.Unset]), unless [WithIdentity] names the variable:
//
//	httpguard.WithVar("userId", httpguard.Ctx(userKey{}))
func Ctx(name any) Source {
	return func(q Request) (string, error) {
		value, ok, err := provided(q, name)
		if err == nil && !ok {
			err = guard.Unset(name)
		}
		return value, err
	}
}

// provided returns what earlier middlewares set under a name. A framework may have
// two places for it; if both have a value, the values must be equal.
func provided(q Request, name any) (value string, ok bool, err error) {
	set := q.Value(name)
	if set == nil {
		return "", false, nil // the request's context was looked at as well
	}
	if value, err = guard.KeyPart(set); err != nil {
		return "", true, err
	}
	if set = q.HTTP().Context().Value(name); set == nil {
		return value, true, nil
	}
	inContext, err := guard.KeyPart(set)
	if err == nil && inContext != value {
		err = key.ErrAmbiguous
	}
	return inContext, true, err
}

// only returns the single value of a list. It refuses a second value, even an equal
// one, because the handler may read the other.
func only(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", key.ErrMissing
	case 1:
		return values[0], nil
	}
	return "", key.ErrAmbiguous
}

package httpguard

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// sourceOf is the source that a template names by its prefix.
func sourceOf(v key.Var) (Source, bool) {
	switch v.Source {
	case "path":
		return Path(v.Name), true
	case "query":
		return Query(v.Name), true
	case "header":
		return Header(v.Name), true
	case "cookie":
		return Cookie(v.Name), true
	case "form":
		return Form(v.Name), true
	case "body":
		return Body(v.Name), true
	case "ctx":
		return Ctx(v.Name), true
	}
	return nil, false
}

// value finds the value of a template's variable.
func (s *settings) value(q Request, v key.Var) (string, error) {
	if v.Source != "" {
		source, ok := sourceOf(v)
		if !ok {
			return "", guard.ErrUnresolvable
		}
		return source(q)
	}
	if v.Reserved() {
		return reserved(q, v.Name)
	}
	if source, ok := s.vars[v.Name]; ok {
		return source(q)
	}
	return bare(q, v.Name)
}

// bare finds the value of a name without a source: only where the client can't
// choose among several places. A name that nobody has set is missing: a
// middleware that sets it may not have known this caller.
func bare(q Request, name string) (string, error) {
	param, inPath := q.PathValue(name)
	set, isSet, err := provided(q, name)
	switch {
	case err != nil:
		return "", err
	case inPath && isSet && param != set:
		return "", key.ErrAmbiguous
	case inPath:
		return param, nil
	case isSet:
		return set, nil
	}
	return "", key.ErrMissing
}

func reserved(q Request, name string) (string, error) {
	switch name {
	case "method":
		return q.HTTP().Method, nil
	case "route":
		return q.Pattern(), nil
	case "ip":
		if ip := q.ClientIP(); ip != "" {
			return ip, nil
		}
		return "", fmt.Errorf("%w: the connection has no IP address", guard.ErrUnresolvable)
	}
	return "", guard.ErrUnresolvable
}

// impossible returns why no request of that method (any, if empty) can have a value
// for the variable. It's empty if one may have.
func impossible(v key.Var, method string) string {
	_, known := sourceOf(v)
	switch {
	case v.Source != "" && !known, v.Source == "" && v.Name == "service":
		return "does not exist in HTTP requests"
	case v.Source == "header" && strings.EqualFold(v.Name, "Host"):
		return "is not a header in Go: bind a variable to the request's Host with WithVar"
	case v.Source == "form" && method != "" && !hasForm(method):
		return "is never there: net/http reads no form from the body of a " + method
	}
	return ""
}

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

// source is where the value of a template's variable is found.
func (s *settings) source(v key.Var) Source {
	if source, ok := sourceOf(v); ok {
		return source
	}
	switch bound := s.vars[v.Name]; {
	case v.Source != "":
		return nowhere
	case v.Reserved():
		return func(q Request) (string, error) { return reserved(q, v.Name) }
	case bound != nil:
		return bound
	}
	return bare(v.Name)
}

func nowhere(Request) (string, error) { return "", guard.ErrUnresolvable }

// bare is a name without a source, whose value is found only where the client can't
// choose among several places. A name that nobody has set is missing: a
// middleware that sets it may not have known this caller.
func bare(name string) Source {
	var stored any = name // the key under which a middleware sets it
	return func(q Request) (string, error) {
		param, inPath := q.PathValue(name)
		set, isSet, err := provided(q, stored)
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

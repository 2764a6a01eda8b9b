package httpguard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

// sources make the sources that templates name by a prefix.
var sources = map[string]func(name string) Source{
	"path": Path, "query": Query, "header": Header, "cookie": Cookie, "form": Form, "body": Body,
	"ctx": func(name string) Source { return Ctx(name) },
}

// source is where the value of a template's variable is found.
func (s *settings) source(v key.Var) Source {
	if source := sources[v.Source]; source != nil {
		return source(v.Name)
	}
	switch bound := s.vars[v.Name]; {
	case v.Source != "":
		return nowhere
	case v.Reserved():
		return func(q Request) (string, error) { return reserved(q, v.Name) }
	case bound != nil:
		return bound
	}
	return bare(v.Name, slices.Contains(s.provided, v.Name))
}

func nowhere(Request) (string, error) { return "", guard.ErrUnresolvable }

// bare is a name without a source, whose value is found only where the client can't
// choose among several places: the program sets it, or the route has it. Where the request
// has no route yet, only a middleware can have set it, and declared says that one does.
func bare(name string, declared bool) Source {
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
		case q.Pattern() == "" && !declared:
			return "", noRoute(name)
		}
		return "", guard.Unset(name)
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
	switch {
	case v.Source != "" && sources[v.Source] == nil, v.Source == "" && v.Name == "service":
		return "does not exist in HTTP requests"
	case v.Source == "header" && strings.EqualFold(v.Name, "Host"):
		return "is not a header in Go: bind a variable to the request's Host with WithVar"
	case v.Source == "form" && method != "" && !hasForm(method):
		return "is never there: net/http reads no form from the body of a " + method
	}
	return ""
}

package httplock

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// request is a request whose key is made.
type request struct {
	m *middleware
	w http.ResponseWriter
	r *http.Request

	rule *rule.Compiled
	// owned is set once r is a copy of what came from outside.
	owned bool
}

// key makes the key. The body is read now if it is to be read first.
func (q *request) key() (string, error) {
	if q.m.Preread {
		if _, err := q.readBody(); err != nil {
			return "", err
		}
	}
	if q.m.KeyFunc != nil {
		return q.m.KeyFunc(q.r)
	}
	return q.rule.Template.Resolve(q.value)
}

// value finds the value of a template's variable.
func (q *request) value(v key.Var) (string, error) {
	switch v.Source {
	case "":
		return q.bare(v)
	case "path":
		return q.path(v.Name)
	case "query":
		return Query(v.Name)(q.r)
	case "header":
		return Header(v.Name)(q.r)
	case "cookie":
		return Cookie(v.Name)(q.r)
	case "ctx":
		return Ctx(v.Name)(q.r)
	case "form":
		return httpguard.FormField(q.r, v.Name, q.readBody)
	case "body":
		return httpguard.BodyField(q.r.Header, v.Name, q.readBody)
	}
	return "", guard.ErrUnresolvable
}

// bare finds the value of a name without a source: only where the client
// cannot choose among several places.
func (q *request) bare(v key.Var) (string, error) {
	if v.Reserved() {
		return q.reserved(v.Name)
	}
	if source, ok := q.m.Vars[v.Name]; ok {
		return source(q.r)
	}
	param, inPath := q.m.pathValue(q.r, v.Name)
	set := q.r.Context().Value(v.Name)
	switch {
	case set == nil && inPath:
		return param, nil
	case set == nil:
		return "", guard.ErrUnresolvable
	}
	value, err := guard.Text(set)
	if err == nil && inPath && param != value {
		err = key.ErrAmbiguous
	}
	return value, err
}

func (q *request) path(name string) (string, error) {
	value, ok := q.m.pathValue(q.r, name)
	if !ok {
		return "", fmt.Errorf("%w: the route has no path value %q", guard.ErrUnresolvable, name)
	}
	return value, nil
}

func (q *request) reserved(name string) (string, error) {
	switch name {
	case "method":
		return q.r.Method, nil
	case "route":
		return q.m.pattern(q.r), nil
	case "ip":
		host, _, err := net.SplitHostPort(q.r.RemoteAddr)
		if err != nil {
			return "", fmt.Errorf("%w: the connection has no IP address", guard.ErrUnresolvable)
		}
		return host, nil
	}
	return "", guard.ErrUnresolvable
}

// readBody reads the whole body and leaves it to the handler. It does so in a
// copy: the request itself is not ours to change.
func (q *request) readBody() ([]byte, error) {
	if !q.owned {
		q.r, q.owned = q.r.WithContext(q.r.Context()), true
	}
	return httpguard.ReadBody(q.w, q.r, q.m.MaxBody)
}

// pathValueOf is the path value that routers tell as ServeMux does. One that is
// empty exists if the pattern names it.
func pathValueOf(r *http.Request, name string) (value string, ok bool) {
	value = r.PathValue(name)
	return value, value != "" || hasParameter(r.Pattern, name)
}

// hasParameter reports whether a pattern names a path value: as {name} or
// {name...}, as chi's {name:expression}, or as Echo's :name.
func hasParameter(pattern, name string) bool {
	for segment := range strings.SplitSeq(pattern, "/") {
		if rest, ok := strings.CutPrefix(segment, ":"); ok && rest == name {
			return true
		}
		_, rest, _ := strings.Cut(segment, "{")
		if rest, ok := strings.CutPrefix(rest, name); ok && rest != "" && strings.ContainsRune("}.:", rune(rest[0])) {
			return true
		}
	}
	return false
}

func patternOf(r *http.Request) string { return r.Pattern }

package httplock

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Check compares the rules of g with the routes of mux, so that a test finds
// what would fail the first request, or leave it without its lock:
//
//   - a rule that no route has;
//   - <path.name> where the route has no such path value;
//   - a bare <name> that is neither a path value of the route nor among
//     provided, the names that [WithVar] binds or that other middlewares set.
//
// Rules of other doors are left out: those for gRPC, and those with the path
// values of Gin (":id").
//
// Call it when all routes are registered. It runs no handler. A ServeMux can be
// asked which route a request has, not which routes and middlewares there are:
// Check cannot see a route whose handler [Rules] is missing from, nor the
// templates of [New], which fail with LOCK_RULE_INVALID when they are used
// first.
func Check(mux *http.ServeMux, g *guard.Guard, provided ...string) error {
	var faults []error
	for _, r := range g.Rules() {
		method, pattern, ok := httpguard.SplitOperation(r.Operation)
		if !ok || ofGin(pattern) {
			continue
		}
		if !hasRoute(mux, method, pattern) {
			faults = append(faults, fmt.Errorf("httplock: %s: has a rule, but there is no such route", r.Operation))
		}
		faults = append(faults, unresolved(r, pattern, provided)...)
	}
	return errors.Join(faults...)
}

// ofGin tells the paths of Gin: a colon begins a segment where ServeMux would
// have a brace.
func ofGin(pattern string) bool {
	return strings.Contains(pattern, "/:") || strings.Contains(pattern, "/*")
}

// hasRoute asks the mux for the route of a request that matches the pattern,
// and that only this one is likely to match.
func hasRoute(mux *http.ServeMux, method, pattern string) bool {
	host, path, _ := strings.Cut(pattern, "/")
	path = strings.TrimSuffix("/"+path, "{$}")
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = "redlatch-check"
		}
	}
	r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: strings.Join(segments, "/")}}
	_, found := mux.Handler(r)
	return operationOf(method, found) == httpguard.Operation(method, pattern)
}

// unresolved lists the variables that the route has no value for.
func unresolved(r *rule.Compiled, pattern string, provided []string) []error {
	var faults []error
	for _, v := range r.Template.Vars() {
		if reason := missing(v, pattern, provided); reason != "" {
			faults = append(faults, fmt.Errorf("httplock: %s: template %q, column %d: <%s> %s", r.Operation, r.Key, v.Column, v, reason))
		}
	}
	return faults
}

func missing(v key.Var, pattern string, provided []string) string {
	switch {
	case v.Source == "path" && !hasParameter(pattern, v.Name):
		return "is not a path value of the route"
	case v.Source != "" || v.Reserved() || hasParameter(pattern, v.Name) || slices.Contains(provided, v.Name):
		return ""
	}
	return "is not a path value of the route, and not known to be bound or set by a middleware"
}

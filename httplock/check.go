package httplock

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
)

// Attach tells the guard that mux serves the rules whose routes it has, and that
// their handlers stand behind [Rules]. The guard looks at the mux when it is
// validated, at the latest with the first request, so Attach may be called before
// the routes are registered. provided are the bare names that WithVar binds or that
// other middlewares set in the request's context.
//
// A ServeMux can be asked which route a request has, not which middlewares stand in
// front of its handler: a route that Rules was forgotten for is not found. While
// something is wrong, the guard lets nobody in. See [Check].
func Attach(g *guard.Guard, mux *http.ServeMux, provided ...string) {
	g.Attach(name, func(rules *rule.Set) ([]string, error) { return survey(mux, g, rules, provided) })
}

// Check attaches mux to the guard, as [Attach] does, and returns everything that is
// wrong now, so that a test finds what would fail a request or leave it without its
// lock:
//
//   - a rule that no route has;
//   - a pattern without a method of which only some methods have a rule;
//   - <path.name> where the route has no such path value, and a bare <name> that is
//     neither a path value of the route nor among provided.
//
// Call it when all routes are registered. It runs no handler.
func Check(mux *http.ServeMux, g *guard.Guard, provided ...string) error {
	Attach(g, mux, provided...)
	return g.Validate()
}

// Serve tells the guard that these routes, "POST /orders/{id}", stand behind
// [Rules], for routers that can list theirs. It checks them as [Check] does those
// of a ServeMux.
//
//	var routes []string
//	_ = chi.Walk(r, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
//		routes = append(routes, method+" "+route)
//		return nil
//	})
//	httplock.Serve(g, routes, "userId")
//
// List routes without a rule as well: on a pattern that brings no method, as those
// of chi and Echo, a method that is not listed is refused if another one has a rule.
// A method that is no HTTP method, such as "*" or "echo_route_any", stands for all
// of them.
func Serve(g *guard.Guard, routes []string, provided ...string) {
	var listed []httpguard.Route
	for _, r := range routes {
		method, pattern, _ := strings.Cut(r, " ")
		if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" {
			g.Serve(name, r)
			listed = append(listed, httpguard.Route{Method: method, Pattern: pattern, Hidden: true})
			continue
		}
		for _, method := range httpguard.Methods() {
			if !slices.Contains(routes, method+" "+pattern) {
				listed = append(listed, httpguard.Route{Method: method, Pattern: pattern, Hidden: true, Any: true})
			}
		}
	}
	g.Attach(name, func(rules *rule.Set) ([]string, error) {
		return httpguard.Survey(name, g, rules, listed, provided...)
	})
}

// survey looks for the routes of the rules: a ServeMux can't list its own. Routes
// that are nearly those of a rule are found, too, so that the guard can name them.
func survey(mux *http.ServeMux, g *guard.Guard, rules *rule.Set, provided []string) ([]string, error) {
	var routes []httpguard.Route
	seen := make(map[string]bool)
	add := func(r httpguard.Route) {
		if operation := r.Operation(); !seen[operation] {
			seen[operation] = true
			routes = append(routes, r)
		}
	}
	for _, r := range rules.All() {
		method, pattern, ok := rule.SplitRoute(r.Operation)
		if !ok {
			continue
		}
		found := routeOf(mux, method, pattern)
		switch {
		case found == "":
		case httpguard.AnyMethod(found):
			for _, method := range httpguard.Methods() {
				if routeOf(mux, method, pattern) == found {
					add(httpguard.Route{Method: method, Pattern: found, Hidden: true, Any: true})
				}
			}
		default:
			add(httpguard.Route{Method: method, Pattern: found, Hidden: true})
		}
	}
	return httpguard.Survey(name, g, rules, routes, provided...)
}

// routeOf is the pattern of the route for a request that matches the pattern, and
// that only this one is likely to match. Parameters are {id}, or :id of other
// routers.
func routeOf(mux *http.ServeMux, method, pattern string) string {
	host, path, _ := strings.Cut(pattern, "/")
	segments := strings.Split("/"+strings.TrimSuffix(path, "{$}"), "/")
	for i, segment := range segments {
		if strings.IndexAny(segment, "{:*") == 0 {
			segments[i] = "redlatch-check"
		}
	}
	r := &http.Request{Method: method, Host: host, URL: &url.URL{Path: strings.Join(segments, "/")}}
	_, found := mux.Handler(r)
	return found
}

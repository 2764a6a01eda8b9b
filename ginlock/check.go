package ginlock

import (
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
)

// Check returns everything that is wrong with the locks of an engine and with the
// rules of g, so that a test finds what would fail a request or leave it without its
// lock:
//
//   - a rule that no route has;
//   - a route with a rule whose handlers [Rules] isn't among, because Use was
//     called after the route was registered, or on another group;
//   - a lock behind the handler;
//   - a route for any method, as of r.Any, of which only some methods have a rule;
//   - <path.name> where the route has no such parameter, and a bare <name> that is
//     neither bound by WithVar nor a parameter nor named by WithProvided for the same
//     route, nor among provided, the names that other middlewares set for all routes.
//
// Call it when all routes are registered. It runs none of the engine's handlers. It
// sees a middleware of this package where it was registered itself, not inside of
// another func. Where [Rules] was made for the engine, [guard.Guard.Validate] does
// the same.
//
// Gin shows only the last handler of a route, so Check reads the rest from the
// router's own fields. It returns an error when a version of Gin doesn't have them
// where they are expected.
func Check(engine *gin.Engine, g *guard.Guard, provided ...string) error {
	if engine == nil {
		return errEngine
	}
	m, err := httpguard.Rules(name, g)
	if err != nil {
		return err
	}
	attach(m, engine, g, provided...)
	return g.Validate()
}

// attach registers the engine, whose routes may still be to come, with the guard.
// provided are names that other middlewares set for all of them.
func attach(m *httpguard.Middleware, engine *gin.Engine, g *guard.Guard, provided ...string) {
	g.Attach(name, engine, func(rules *rule.Set) ([]string, error) {
		routes, err := routesOf(engine)
		if err != nil {
			return nil, err
		}
		return m.Survey(rules, routes, provided...)
	})
}

// routesOf finds the locks among the handlers of every route.
func routesOf(engine *gin.Engine) ([]httpguard.Route, error) {
	found, ok := readTrees(reflect.ValueOf(engine).Elem())
	if !ok || len(found) != len(engine.Routes()) {
		return nil, errRouter
	}
	ours := codeOf((&middleware{}).handle)
	routes := make([]httpguard.Route, len(found))
	for i, r := range found {
		locks := make([]*httpguard.Middleware, len(r.handlers))
		for at, h := range r.handlers {
			locks[at] = identify(h, ours)
		}
		// Requests find it without the backslash of a literal colon, which Gin takes out
		// when the first of them comes.
		pattern := strings.ReplaceAll(r.path, `\:`, ":")
		routes[i] = httpguard.Route{Method: r.method, Pattern: pattern, Handlers: locks}
	}
	return routes, nil
}

// probe is the request by which a survey identifies a handler. No client can
// send it: it is recognized by its address.
var probe = &http.Request{}

type probed struct{} // key of gin.Context: the middleware that was probed

// codeOf is the code of a handler. All of this package share theirs.
func codeOf(h gin.HandlerFunc) uintptr { return reflect.ValueOf(h).Pointer() }

// identify calls a handler of this package, which has that code, to learn which one
// it is. Others aren't called.
func identify(h gin.HandlerFunc, code uintptr) *httpguard.Middleware {
	if h == nil || codeOf(h) != code {
		return nil
	}
	c := &gin.Context{Request: probe}
	h(c)
	found, _ := c.Get(probed{})
	m, _ := found.(*httpguard.Middleware)
	return m
}

// route is a route with all its handlers.
type route struct {
	method, path string
	handlers     gin.HandlersChain
}

var errRouter = errors.New("ginlock: this version of Gin keeps its routes where Check does not find them")

// readTrees reads the routes out of an engine's trees:
//
//	Engine.trees []struct{ method string; root *node }
//	node struct{ fullPath string; handlers HandlersChain; children []*node }
//
// false means that something looks different.
func readTrees(engine reflect.Value) (routes []route, ok bool) {
	trees := engine.FieldByName("trees")
	if trees.Kind() != reflect.Slice || trees.Type().Elem().Kind() != reflect.Struct {
		return nil, false
	}
	for i := range trees.Len() {
		method := trees.Index(i).FieldByName("method")
		if method.Kind() != reflect.String || !walk(trees.Index(i).FieldByName("root"), method.String(), &routes) {
			return nil, false
		}
	}
	return routes, true
}

// walk collects the routes at and below a node.
func walk(pointer reflect.Value, method string, routes *[]route) bool {
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Type().Elem().Kind() != reflect.Struct {
		return false
	}
	node := pointer.Elem()
	path, handlers, children := node.FieldByName("fullPath"), node.FieldByName("handlers"), node.FieldByName("children")
	if path.Kind() != reflect.String || children.Kind() != reflect.Slice ||
		!handlers.IsValid() || handlers.Type() != reflect.TypeFor[gin.HandlersChain]() {
		return false
	}
	if handlers.Len() > 0 {
		// The type is the one that was just compared, the node is alive, and
		// nothing is written.
		chain := *(*gin.HandlersChain)(handlers.Addr().UnsafePointer())
		*routes = append(*routes, route{method: method, path: path.String(), handlers: chain})
	}
	for i := range children.Len() {
		if !walk(children.Index(i), method, routes) {
			return false
		}
	}
	return true
}

package ginlock

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/rule"
)

// Attach tells the guard that engine serves the rules whose routes go through
// [Rules]. The guard looks at the engine's routes when it is validated, at the
// latest with the first request, so Attach may be called before they are
// registered. provided are the bare names that other middlewares set, with c.Set or
// in the request's context.
//
// While something is wrong, the guard lets nobody in. See [Check].
func Attach(g *guard.Guard, engine *gin.Engine, provided ...string) {
	g.Attach(name, func(rules *rule.Set) ([]string, error) { return survey(engine, g, rules, provided) })
}

// Check attaches engine to the guard, as [Attach] does, and returns everything that
// is wrong now, so that a test finds what would fail a request or leave it without
// its lock:
//
//   - a rule that no route has;
//   - a route with a rule whose handlers [Rules] is not among, because Use was
//     called after the route was registered;
//   - a lock behind the handler;
//   - a route for any method, as of r.Any, of which only some methods have a rule;
//   - <path.name> where the route has no such parameter, and a bare <name> that is
//     neither bound by WithVar nor a parameter nor among provided.
//
// Call it when all routes are registered. It runs none of the engine's handlers. It
// sees a middleware of this package where it was registered itself, not inside of
// another func.
//
// Gin shows only the last handler of a route, so Check reads the rest from the
// router's own fields. It returns an error when a version of Gin does not have them
// where they are expected.
func Check(engine *gin.Engine, g *guard.Guard, provided ...string) error {
	Attach(g, engine, provided...)
	return g.Validate()
}

// survey finds the locks among the handlers of every route.
func survey(engine *gin.Engine, g *guard.Guard, rules *rule.Set, provided []string) ([]string, error) {
	found, ok := readTrees(reflect.ValueOf(engine).Elem())
	if !ok || len(found) != len(engine.Routes()) {
		return nil, errRouter
	}
	routes := make([]httpguard.Route, len(found))
	for i, r := range found {
		locks := make([]*httpguard.Middleware, len(r.handlers))
		for at, h := range r.handlers {
			locks[at] = identify(h)
		}
		routes[i] = httpguard.Route{Method: r.method, Pattern: r.path, Handlers: locks}
	}
	return httpguard.Survey(name, g, rules, routes, provided...)
}

// probe is the request with which a survey asks a handler who it is. No client can
// send it: it is recognized by its address.
var probe = &http.Request{}

type probed struct{} // key of gin.Context: the middleware that was probed

// handlerCode is the code that all handlers of this package share.
var handlerCode = reflect.ValueOf((&middleware{}).handle).Pointer()

// identify asks a handler of this package which one it is. Others are not called.
func identify(h gin.HandlerFunc) *httpguard.Middleware {
	if h == nil || reflect.ValueOf(h).Pointer() != handlerCode {
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

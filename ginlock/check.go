package ginlock

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// Check looks at every route of the engine and reports what would fail its
// first request, so that a test finds it:
//
//   - <path.name> where the route has no such parameter;
//   - a bare <name> that is neither bound by [WithVar] nor a parameter of the
//     route, nor among provided, the names that other middlewares set;
//   - for [Rules]: a rule that no route has, and a route with a rule that the
//     middleware is missing from.
//
// Call it when all routes are registered, and before the engine serves. It
// runs none of the engine's handlers. It sees a middleware of this package
// where it was registered itself, not inside of another func.
//
// Gin tells only the last handler of a route, so Check reads the rest from
// the router's own fields. It returns an error when a version of Gin does not
// have them where they are expected.
func Check(engine *gin.Engine, provided ...string) error {
	routes, err := routesOf(engine)
	if err != nil {
		return err
	}
	k := checker{provided: provided, byRule: make(map[*guard.Guard]map[string]bool)}
	for _, r := range routes {
		k.route(r)
	}
	for _, r := range routes {
		k.unguarded(r)
	}
	k.unused()
	return errors.Join(k.faults...)
}

type checker struct {
	provided []string
	guards   []*guard.Guard                   // in the order they were met
	byRule   map[*guard.Guard]map[string]bool // the operations that Rules stands in front of
	faults   []error
}

func (k *checker) fault(format string, args ...any) {
	k.faults = append(k.faults, fmt.Errorf("ginlock: "+format, args...))
}

// route checks the middlewares of one route.
func (k *checker) route(r route) {
	operation := httpguard.Operation(r.method, r.path)
	for _, h := range r.handlers {
		m, ok := identify(h)
		if !ok {
			continue
		}
		compiled := m.compiled
		if compiled == nil {
			k.meet(m.guard, operation)
			if compiled = ruleNamed(m.guard, operation); compiled == nil {
				continue
			}
		}
		if m.KeyFunc == nil {
			k.template(m, r, compiled)
		}
	}
}

func (k *checker) meet(g *guard.Guard, operation string) {
	if k.byRule[g] == nil {
		k.guards = append(k.guards, g)
		k.byRule[g] = make(map[string]bool)
	}
	k.byRule[g][operation] = true
}

func (k *checker) template(m *middleware, r route, compiled *rule.Compiled) {
	for _, v := range compiled.Template.Vars() {
		if reason := k.unresolved(m, r, v); reason != "" {
			k.fault("%s: template %q, column %d: <%s> %s", httpguard.Operation(r.method, r.path), compiled.Key, v.Column, v, reason)
		}
	}
}

func (k *checker) unresolved(m *middleware, r route, v key.Var) string {
	switch {
	case v.Source == "path" && !r.has(v.Name):
		return "is not a parameter of the route"
	case v.Source != "" || v.Reserved() || m.Vars[v.Name] != nil || r.has(v.Name) || slices.Contains(k.provided, v.Name):
		return ""
	}
	return "is not bound, not a parameter of the route, and not known to be set by a middleware"
}

// unguarded reports a route that has a rule, but not the middleware.
func (k *checker) unguarded(r route) {
	operation := httpguard.Operation(r.method, r.path)
	for _, g := range k.guards {
		if r := ruleNamed(g, operation); r != nil && !k.byRule[g][operation] {
			k.fault("%s: has a rule, but Rules is not among its handlers", operation)
			k.byRule[g][operation] = true
		}
	}
}

// ruleNamed returns the guard's rule for an operation, nil if it has none.
func ruleNamed(g *guard.Guard, operation string) *rule.Compiled {
	for _, r := range g.Rules() {
		if r.Operation == operation {
			return r
		}
	}
	return nil
}

// unused reports rules of this door that no route has.
func (k *checker) unused() {
	for _, g := range k.guards {
		for _, r := range g.Rules() {
			if ofGin(r.Operation) && !k.byRule[g][r.Operation] {
				k.fault("%s: has a rule, but there is no such route", r.Operation)
			}
		}
	}
}

// ofGin tells the operations of this door from those of others.
func ofGin(operation string) bool {
	_, path, ok := httpguard.SplitOperation(operation)
	return ok && strings.HasPrefix(path, "/")
}

// handlerCode is the code that all handlers of this package share.
var handlerCode = reflect.ValueOf((&middleware{}).handle).Pointer()

// identify asks a handler of this package which one it is. Others are not
// called.
func identify(h gin.HandlerFunc) (*middleware, bool) {
	if h == nil || reflect.ValueOf(h).Pointer() != handlerCode {
		return nil, false
	}
	c := &gin.Context{Request: probe}
	h(c)
	m, _ := c.Get(probed{})
	found, ok := m.(*middleware)
	return found, ok
}

// route is a route with all its handlers.
type route struct {
	method, path string
	handlers     gin.HandlersChain
}

// has reports whether the route has a parameter.
func (r route) has(param string) bool {
	for part := range strings.SplitSeq(r.path, "/") {
		if i := strings.IndexAny(part, ":*"); i >= 0 && part[i+1:] == param {
			return true
		}
	}
	return false
}

var errRouter = errors.New("ginlock: this version of Gin keeps its routes where Check does not find them")

// routesOf reads the routes out of the engine's trees:
//
//	Engine.trees []struct{ method string; root *node }
//	node struct{ fullPath string; handlers HandlersChain; children []*node }
func routesOf(engine *gin.Engine) ([]route, error) {
	routes, ok := readTrees(reflect.ValueOf(engine).Elem())
	if !ok || len(routes) != len(engine.Routes()) {
		return nil, errRouter
	}
	return routes, nil
}

// readTrees collects the routes of an engine; false means that something
// looks different from what is expected.
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

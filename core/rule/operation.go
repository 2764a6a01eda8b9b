package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Shape is the form of an operation's name, which says what kind of integration
// serves it.
type Shape uint8

const (
	// Name is a name that the program itself declares: "nightly-report".
	Name Shape = iota
	// HTTP is a method and a path: "POST /vouchers/:id/orders".
	HTTP
	// GRPC is a full method: "/shop.v1.Stock/Refill".
	GRPC
	// Method is a type and its method: "OrderService.Place".
	Method
)

var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

// ShapeOf returns the shape of an operation. An operation that nearly has a shape,
// such as "post /orders" or "/orders/:id", is an error that says how to write it,
// because nothing would serve it.
func ShapeOf(operation string) (Shape, error) {
	switch {
	case operation == "":
		return Name, fmt.Errorf("is missing, name the route or method that takes the lock")
	case !presentable(operation):
		return Name, fmt.Errorf("%.300q has a control byte or a space at its ends, remove it", operation)
	case strings.HasPrefix(operation, "/"):
		return GRPC, checkGRPC(operation)
	case strings.ContainsAny(operation, " /"):
		return HTTP, checkHTTP(operation)
	case strings.Contains(operation, "."):
		return Method, checkName(operation)
	}
	return Name, checkName(operation)
}

// SplitRoute splits the operation of an HTTP route into method and path. ok is
// false for other operations.
func SplitRoute(operation string) (method, path string, ok bool) {
	shape, err := ShapeOf(operation)
	if err != nil || shape != HTTP {
		return "", "", false
	}
	return strings.Cut(operation, " ")
}

func checkGRPC(operation string) error {
	service, method, ok := strings.Cut(operation[1:], "/")
	if ok && isProtoName(service, true) && isProtoName(method, false) {
		return nil
	}
	if ok && !strings.ContainsAny(operation, ":{}*") && strings.Contains(service, ".") {
		return fmt.Errorf("%.300q is not a full method of gRPC, write it as \"/shop.v1.Orders/Place\"", operation)
	}
	return fmt.Errorf("%.300q has no HTTP method, write one in front of the path, as in %q; a method of gRPC is written as \"/shop.v1.Orders/Place\"",
		operation, "POST "+clip(operation))
}

func checkHTTP(operation string) error {
	method, path, spaced := strings.Cut(operation, " ")
	if !spaced {
		if before, after, ok := strings.Cut(operation, ":/"); ok && isHTTPMethod(strings.ToUpper(before)) {
			return fmt.Errorf("%.300q has a colon behind the method, write %q", operation, strings.ToUpper(before)+" /"+clip(after))
		}
		if i := strings.IndexByte(operation, '/'); i >= 0 && isHTTPMethod(strings.ToUpper(operation[:i])) {
			return fmt.Errorf("%.300q has no space between the method and the path, write %q", operation, strings.ToUpper(operation[:i])+" "+clip(operation[i:]))
		}
		if service, _, ok := strings.Cut(operation, "/"); ok && isProtoName(service, true) {
			return fmt.Errorf("%.300q is nearly a method of gRPC, write %q", operation, "/"+clip(operation))
		}
		return fmt.Errorf("%.300q is not an operation, write a route as \"POST /orders/:id\", a method of gRPC as \"/shop.v1.Orders/Place\"", operation)
	}
	trimmed := strings.TrimLeft(path, " ")
	switch upper := strings.ToUpper(strings.TrimRight(method, ":")); {
	case trimmed != path:
		return fmt.Errorf("%.300q has more than one space between the method and the path, write %q", operation, method+" "+clip(trimmed))
	case method == "*" || method == "ANY" || method == "ALL":
		return fmt.Errorf("%.300q is for every method, and a rule is for one, write one rule for each method", operation)
	case upper != method && isHTTPMethod(upper):
		return fmt.Errorf("%.300q does not spell the method as HTTP does, write %q", operation, upper+" "+clip(path))
	case strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "":
		return fmt.Errorf("%.300q begins with %.40q, which is no HTTP method, write a route as \"POST /orders/:id\"", operation, method)
	case isMisspelt(method):
		return fmt.Errorf("%.300q begins with an unknown method%s", operation, DidYouMean(method, httpMethods))
	case strings.ContainsAny(path, " "):
		return fmt.Errorf("%.300q has a space in its path, which no route has, remove it", operation)
	case !strings.Contains(path, "/"):
		return fmt.Errorf("%.300q has no path, write it as %q", operation, method+" /"+clip(path))
	case strings.ContainsAny(expression.ReplaceAllString(path, ""), "?#"):
		return fmt.Errorf("%.300q has a query or fragment, which is not part of a route, remove it", operation)
	case strings.Contains(path, "://"):
		return fmt.Errorf("%.300q has a scheme, which is not part of a route, write the path as it is registered", operation)
	}
	return nil
}

// expression is a parameter in braces, in which chi has regular expressions.
var expression = regexp.MustCompile(`\{[^/{}]*(\{[^/{}]*\}[^/{}]*)*\}`)

func isHTTPMethod(method string) bool { return slices.Contains(httpMethods, method) }

// isMisspelt reports whether a method is a usual one with a letter too many, missing
// or wrong, or with its letters in another order. Others exist: SEARCH is not PATCH.
func isMisspelt(method string) bool {
	usual := nearest(method, httpMethods)
	return usual != "" && !isHTTPMethod(method) && (distance(method, usual) <= 1 || sorted(method) == sorted(usual))
}

func sorted(s string) string {
	letters := []byte(s)
	slices.Sort(letters)
	return string(letters)
}

// checkName accepts the names of programs and of their methods.
func checkName(operation string) error {
	for part := range strings.SplitSeq(operation, ".") {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return !isNameRune(r) }) {
			return fmt.Errorf("%.300q is not an operation, write a route as \"POST /orders/:id\", a method of gRPC as "+
				"\"/shop.v1.Orders/Place\", a method of a type as \"OrderService.Place\", a name of the program's with letters, digits, \"-\" and \"_\"", operation)
		}
	}
	return nil
}

func isNameRune(r rune) bool {
	return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z'
}

// isProtoName reports whether name is an identifier of a .proto, or some of them
// with dots between.
func isProtoName(name string, dotted bool) bool {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || '0' <= part[0] && part[0] <= '9' || strings.ContainsFunc(part, func(r rune) bool { return r == '-' || !isNameRune(r) }) {
			return false
		}
	}
	return dotted || !strings.Contains(name, ".")
}

// clip keeps a suggestion short enough to read.
func clip(s string) string { return s[:min(len(s), maxSuggested)] }

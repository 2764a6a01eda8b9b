package key

import (
	"slices"
	"strings"
)

// sources are the prefixes a variable may have. Each says where a front end has
// to look for the value, so that a caller can't move it to another place.
var sources = []string{"path", "query", "header", "cookie", "form", "body", "ctx", "md", "req"}

// reserved are the bare names whose meaning belongs to the front end.
var reserved = []string{"method", "route", "ip", "service"}

// Var is one variable of a template.
type Var struct {
	Source  string   // one of path query header cookie form body ctx md req; empty for a bare name
	Name    string   // "userId", or "user.id" behind a source
	Filters []string // in the order they run
	Column  int      // byte of its "<" in the template, from 1
}

// String returns the variable as the template names it, without its filters:
// "path.id", "userId".
func (v Var) String() string {
	if v.Source == "" {
		return v.Name
	}
	return v.Source + "." + v.Name
}

// Reserved reports whether v is one of the bare names method, route, ip and
// service. A front end gives them their value itself (or refuses them) and never
// looks them up among the request's.
func (v Var) Reserved() bool {
	return v.Source == "" && slices.Contains(reserved, v.Name)
}

// variable is a Var made ready to render.
type variable struct {
	Var
	ref     string // Var.String(), as a part of the template's text
	filters []filter
	limit   int // longest value before the filters
}

func knownSources() string { return strings.Join(sources, ", ") }

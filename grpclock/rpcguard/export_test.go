package rpcguard

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Path is for tests of the compiler and the reader.
type Path = path

// CompilePath compiles a path.
var CompilePath = compilePath

// Read reads the value at the path.
func (p *path) Read(m protoreflect.Message, zero bool) (string, error) { return p.read(m, zero) }

// Cached is how many methods the caches hold.
func (l *Locks) Cached() (options, plans int) {
	l.options.Range(func(any, any) bool { options++; return true })
	l.plans.Range(func(any, any) bool { plans++; return true })
	return options, plans
}

// ReadOption reads a LockRule, or a message that has the fields of one.
var ReadOption = readOption

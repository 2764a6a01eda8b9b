package grpclock

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/rule"
)

// Path is for tests of the compiler and the reader.
type Path = path

// CompilePath compiles a path.
var CompilePath = compilePath

// Read reads the value at the path.
func (p *path) Read(m protoreflect.Message, zero bool) (string, error) { return p.read(m, zero) }

// Cached is how many methods the caches hold.
func (i *Interceptors) Cached() (options, plans int) {
	i.options.Range(func(any, any) bool { options++; return true })
	i.plans.Range(func(any, any) bool { plans++; return true })
	return options, plans
}

// CompileOption reads a LockRule, or a message that has the fields of one.
func CompileOption(option protoreflect.Message) (rule.Rule, error) {
	compiled, err := compileOption(option)
	if err != nil {
		return rule.Rule{}, err
	}
	return compiled.Rule, nil
}

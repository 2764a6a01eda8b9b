package grpclock

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/rule"
)

// Path is for tests of the compiler and the reader.
type Path = path

// CompilePath compiles a path.
var CompilePath = compilePath

// Read reads the value at the path.
func (p *path) Read(m protoreflect.Message, zero bool) (string, error) { return p.read(m, zero) }

// WithoutTypes makes a door believe that the program knows no type at all.
func WithoutTypes() Option {
	return optionFunc(func(c *config) { c.types = new(protoregistry.Types) })
}

// OptionNumber is the number of the option, which is written down twice.
const OptionNumber = optionNumber

// Cached is how many methods the caches of a door hold.
func (d *Door) Cached() (options, plans int) {
	d.options.Range(func(any, any) bool { options++; return true })
	d.plans.Range(func(any, any) bool { plans++; return true })
	return options, plans
}

// Declared is the rule in the .proto of a method.
func (d *Door) Declared(method string) (rule.Rule, error) {
	found := d.declared(method)
	if found.fault != nil {
		return rule.Rule{}, found.fault
	}
	return found.rule.Rule, nil
}

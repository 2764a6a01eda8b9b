package grpclock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
)

// Registry is what [Validate] needs of a server: a [*grpc.Server] is one.
type Registry interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}

// Validate looks at every method that a server has, and reports what would
// fail its first call or, worse, not be locked. Give it what the interceptors
// got, and call it when all services are registered, before Serve:
//
//   - a rule, or a WithFirstMessage, for a method that the server does not have,
//     or that is spelt without its slash;
//   - an option in a .proto that is no rule;
//   - a variable that the requests of the method have no field for, or one
//     that no key can be made of;
//   - a rule that needs a descriptor to be checked or skipped, where there is
//     none.
//
// It also returns what [Build] would. The error lists all faults.
func Validate(server Registry, g *guard.Guard, opts ...Option) error {
	d, err := Build(g, opts...)
	if err != nil {
		return err
	}
	return d.Validate(server)
}

// Validate is [Validate] for a door.
func (d *Door) Validate(server Registry) error {
	methods := methodsOf(server)
	var faults []error
	fault := func(method, format string, args ...any) {
		faults = append(faults, fmt.Errorf("grpclock: %s: %w", method, fmt.Errorf(format, args...)))
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		c, ok := d.incoming(method)
		if !ok {
			continue
		}
		for _, err := range d.check(&c, methods[method]) {
			fault(method, "%w", err)
		}
	}
	for _, r := range d.allRules() {
		if _, ok := methods[r.Operation]; !ok {
			fault(r.Operation, "has a rule, but the server has no such method")
		}
	}
	for _, r := range d.guard.Rules() {
		if _, ok := methods["/"+r.Operation]; ok {
			fault(r.Operation, "has a rule, but the method is called \"/%s\"", r.Operation)
		}
	}
	for method := range d.first {
		switch found, ok := methods[method]; {
		case !ok:
			fault(method, "is in WithFirstMessage, but the server has no such method")
		case !found.IsClientStream:
			fault(method, "is in WithFirstMessage, but clients do not stream to it")
		}
	}
	slices.SortStableFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

func methodsOf(server Registry) map[string]grpc.MethodInfo {
	methods := make(map[string]grpc.MethodInfo)
	for service, info := range server.GetServiceInfo() {
		for _, method := range info.Methods {
			methods["/"+service+"/"+method.Name] = method
		}
	}
	return methods
}

// check lists what is wrong with the rule of a method.
func (d *Door) check(c *call, method grpc.MethodInfo) []error {
	if c.fault != nil {
		return parts(c.fault)
	}
	descriptor := d.descriptor(c.method)
	var faults []error
	if descriptor == nil && c.rule.OnBusy == rule.Skip && !method.IsServerStream {
		faults = append(faults, errors.New("says skip, but its answers are not known: its .proto is not among the files"))
	}
	return append(faults, d.checkTemplate(c, method, descriptor)...)
}

func (d *Door) checkTemplate(c *call, method grpc.MethodInfo, descriptor protoreflect.MethodDescriptor) []error {
	var input protoreflect.MessageDescriptor
	if descriptor != nil && (!method.IsClientStream || d.first[c.method]) {
		input = descriptor.Input()
	}
	p := d.compile(c.rule, input)
	if descriptor == nil && errors.Is(p.fault, errNoRequest) {
		return []error{errors.New("names fields of its requests, which are not known: its .proto is not among the files")}
	}
	return parts(p.fault)
}

// parts takes joined errors apart.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

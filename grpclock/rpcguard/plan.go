package rpcguard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
	"github.com/redlatch/redlatch/core/rule"
)

// plan holds the rules of a method compiled for requests of one type.
type plan struct {
	rules []*rule.Compiled
	input protoreflect.MessageDescriptor // nil: there is no request when the keys are made
	paths map[string]*path               // by the name of the variable, bare or behind "req."
	fault error                          // why no key can be made, nil if it can
}

// errNoRequest is for fields of a request that comes too late.
var errNoRequest = errors.New("is a field of a request, and there is no message before the handler runs: " +
	"use <md.name>, <ctx.name>, WithVar or WithFirstMessage")

// plan returns the plan of a method, from the cache unless its rules or the type of its
// requests have changed. The cache has an entry for each method that has a rule.
func (l *Locks) plan(method string, rules []*rule.Compiled, message protoreflect.Message) *plan {
	var input protoreflect.MessageDescriptor
	if message != nil {
		input = message.Descriptor()
	}
	if found, ok := l.plans.Load(method); ok {
		if p := found.(*plan); p.input == input && slices.Equal(p.rules, rules) {
			return p
		}
	}
	p := l.compile(rules, input)
	l.plans.Store(method, p)
	return p
}

// compile finds the sources of all variables. The error names each variable without
// a source, and its column.
func (l *Locks) compile(rules []*rule.Compiled, input protoreflect.MessageDescriptor) *plan {
	p := &plan{rules: rules, input: input, paths: make(map[string]*path)}
	var faults []error
	for _, r := range rules {
		for _, v := range r.Template.Vars() {
			if err := l.find(p, v); err != nil {
				faults = append(faults, fmt.Errorf("template %q, column %d: <%s>: %w", r.Key, v.Column, v, err))
			}
		}
		if reason, column := rule.Unbracketed(r.Template, func(name string) bool { return input != nil && hasField(input, name) }); reason != "" {
			faults = append(faults, fmt.Errorf("template %q, column %d: %s", r.Key, column, reason))
		}
	}
	p.fault = errors.Join(faults...)
	return p
}

func (l *Locks) find(p *plan, v key.Var) error {
	switch {
	case !isKnown(v):
		return errors.New("does not exist in gRPC, use a field of the request, <md.name>, <ctx.name> or WithVar")
	case v.Reserved() && p.input != nil && hasField(p.input, v.Name):
		return fmt.Errorf("is the %s of gRPC, and %s has a field of that name as well: write <req.%s> for the field, "+
			"or the name of the %s itself", v.Name, p.input.FullName(), v.Name, v.Name)
	case v.Reserved(), v.Source == "md", v.Source == "ctx", v.Source == "" && l.config.Vars[v.Name] != nil:
		return nil
	case p.input == nil:
		return errNoRequest
	}
	compiled, err := compilePath(p.input, v.Name)
	if err != nil {
		return err
	}
	p.paths[v.Name] = compiled
	return nil
}

func hasField(in protoreflect.MessageDescriptor, name string) bool {
	return in.Fields().ByName(protoreflect.Name(name)) != nil || in.Fields().ByJSONName(name) != nil
}

// Variable returns the variable that a template has as <name>; false if no template of
// an RPC method can have it.
func Variable(name string) (v key.Var, ok bool) {
	template, err := key.Parse("lock:<" + name + ">")
	if err != nil {
		return v, false
	}
	v = template.Vars()[0]
	return v, v.String() == name && isKnown(v)
}

// isKnown reports whether calls have such a variable at all.
func isKnown(v key.Var) bool {
	switch v.Source {
	case "":
		return !v.Reserved() || v.Name == "method" || v.Name == "service"
	case "req", "md", "ctx":
		return true
	}
	return false
}

// field names what a variable is found in: the field of the request, by its
// name in the .proto, or the variable itself.
func (p *plan) field(variable string) string {
	if found, ok := p.paths[strings.TrimPrefix(variable, "req.")]; ok {
		return found.String()
	}
	return variable
}

// value finds the value of a variable in a request.
func (c *Call) value(ctx context.Context, q *Request, message protoreflect.Message, v key.Var) (string, error) {
	switch v.Source {
	case "md":
		if q.Metadata == nil {
			return "", key.ErrMissing
		}
		return only(q.Metadata(ctx, v.Name))
	case "ctx":
		value := ctx.Value(v.Name)
		if value == nil {
			return "", guard.Unset(v.Name)
		}
		return guard.KeyPart(value)
	case "":
		if v.Reserved() {
			return reserved(c.method, v.Name)
		}
		if src, ok := c.locks.config.Vars[v.Name]; ok {
			return src(ctx, q.Message)
		}
	}
	found, ok := c.plan.paths[v.Name]
	if !ok || message == nil {
		return "", guard.ErrUnresolvable
	}
	return found.read(message, slices.Contains(v.Filters, "int"))
}

func reserved(fullMethod, name string) (string, error) {
	service, method := split(fullMethod)
	if name == "service" {
		return service, nil
	}
	return method, nil
}

// only is the single value of a list.
func only(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", key.ErrMissing
	case 1:
		return values[0], nil
	}
	return "", key.ErrAmbiguous
}

// messageOf is req as a message, nil if it is none.
func messageOf(req any) protoreflect.Message {
	switch m := req.(type) {
	case proto.Message:
		return m.ProtoReflect()
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m).ProtoReflect()
	}
	return nil
}

// split splits "/shop.v1.Orders/Place" into service and method.
func split(fullMethod string) (service, method string) {
	name := strings.TrimPrefix(fullMethod, "/")
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}

package rpcguard

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
)

// Method is a method that goes through an integration.
type Method struct {
	Name                       string // "/shop.v1.Orders/Place"
	ClientStream, ServerStream bool
	// FirstMessage says that the key of a method to which clients stream is made of the
	// first message.
	FirstMessage bool
	// Client says that the method is called, and not served: its option doesn't count.
	Client bool
}

// Rules returns the rules that a method would have with the rules of set, or what is
// wrong with its options.
func (l *Locks) Rules(set *rule.Set, m Method) ([]*rule.Compiled, error) {
	rules, err := l.rulesOf(set, m.Name)
	if m.Client && (err != nil || l.isDeclared(m.Name, rules)) {
		return nil, nil
	}
	return rules, err
}

// isDeclared reports whether the rules are those of the method's options.
func (l *Locks) isDeclared(method string, rules []*rule.Compiled) bool {
	option := l.declared(method)
	return option != nil && len(rules) > 0 && slices.Equal(option.rules, rules)
}

// Check returns everything that is wrong with the locks that a method would have with the
// rules of set: what would fail its first call, or keep it from its lock.
func (l *Locks) Check(set *rule.Set, m Method) []error {
	rules, err := l.Rules(set, m)
	switch {
	case err != nil:
		return parts(err)
	case len(rules) == 0:
		return nil
	}
	descriptor := l.descriptor(m.Name)
	var faults []error
	if descriptor == nil && rules[0].OnBusy == rule.Skip && !m.ServerStream {
		faults = append(faults, errors.New("says skip, but its answers are not known: its .proto is not among the files (WithFiles)"))
	}
	var input protoreflect.MessageDescriptor
	if descriptor != nil && (!m.ClientStream || m.FirstMessage) {
		input = descriptor.Input()
	}
	p := l.compile(rules, input)
	if descriptor == nil && errors.Is(p.fault, errNoRequest) {
		faults = append(faults, errors.New("names fields of its requests, which are not known: its .proto is not among the files (WithFiles): "+
			"use <md.name>, <ctx.name> or WithVar"))
	} else {
		faults = append(faults, parts(p.fault)...)
	}
	for _, r := range rules {
		if slices.Contains(set.Lookup(m.Name), r) {
			continue // the guard checks its own
		}
		if err := l.guard.Fits(r); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// CheckOptions returns everything that is wrong with the options of a method as far as its
// .proto shows, for tools that generate code. A bare name may be one that the program binds:
// it is wrong only if a field is nearly called so.
func CheckOptions(method protoreflect.MethodDescriptor) []error {
	declared, err := Declared(method)
	if err != nil {
		return parts(err)
	}
	rules, err := rule.JoinAll(declared...)
	if err != nil {
		return parts(err)
	}
	input := method.Input()
	l := &Locks{config: Config{Vars: make(map[string]Source)}}
	for _, r := range rules {
		for _, v := range r.Template.Vars() {
			if v.Source == "" && !v.Reserved() && rule.DidYouMean(v.Name, fieldNames(input)) == "" {
				l.config.Vars[v.Name] = func(context.Context, any) (string, error) { return "", nil }
			}
		}
	}
	if method.IsStreamingClient() { // whose first message may make the key, as the program says
		return nil
	}
	return parts(l.compile(rules, input).fault)
}

// Require declares to g that each method of these services that has an option
// (redlatch.lock.v1.lock) must be served: by interceptors, a decorator or another
// integration. [guard.Guard.Validate] reports the methods that nobody serves, such as
// those of a service that an HTTP gateway calls in the process, and the guard lets nobody
// in. An option that says optional is left out. A nil service is a fault.
func Require(g *guard.Guard, services ...protoreflect.ServiceDescriptor) {
	var operations []string
	var faults []error
	for _, service := range services {
		if service == nil {
			faults = append(faults, errNoService)
			continue
		}
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			rules, err := Declared(m)
			if err != nil || slices.ContainsFunc(rules, func(r rule.Rule) bool { return !r.Optional }) {
				operations = append(operations, "/"+string(service.FullName())+"/"+string(m.Name()))
			}
		}
	}
	g.Require(operations...)
	if err := errors.Join(faults...); err != nil {
		g.Attach("rpcguard", nil, func(*rule.Set) ([]string, error) { return nil, err })
	}
}

var errNoService = errors.New("rpcguard: Require got a service without a descriptor: link the generated code of its .proto into the program")

// parts returns the errors that were joined.
func parts(err error) []error {
	switch joined := err.(type) { //nolint:errorlint // it is about the tree itself
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		return joined.Unwrap()
	}
	return []error{err}
}

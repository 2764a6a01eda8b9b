package grpclock

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/redlatch/redlatch/core/rule"
)

// Registry is what [Interceptors.Attach] needs of a server, such as a
// [*grpc.Server].
type Registry interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}

// Attach declares that server uses the interceptors. Its methods are read when the
// guard is validated, so services may be registered until then. The guard isn't
// valid, and lets nobody in, while a server's interceptors aren't attached.
//
// [guard.Guard.Validate] reports what would fail the first call of a method or,
// worse, not lock it:
//
//   - a rule, or a [WithFirstMessage], for a method that no server has;
//   - a rule for a stream where there is no interceptor for streams, or for a
//     unary method where there is none for those;
//   - an option in a .proto that is no rule;
//   - a rule of an option that the settings of the locker rule out;
//   - a variable that the requests of the method have no field for, or one that
//     no key can be made of, or that may mean two things;
//   - a rule that needs a descriptor to be checked or skipped, where there is
//     none;
//   - a name in [WithVar] or [WithIdentity] that no template has, but that is nearly
//     one of theirs.
func (i *Interceptors) Attach(server Registry) {
	i.mu.Lock()
	i.servers = append(i.servers, server)
	i.mu.Unlock()
	i.attach()
}

// survey is what the guard knows of gRPC: the methods that go through the
// interceptors, and everything that is wrong with their locks.
func (i *Interceptors) survey(rules *rule.Set) (served []string, err error) {
	s := survey{Interceptors: i, guarded: rules, methods: make(map[string]grpc.MethodInfo)}
	s.server()
	s.client()
	s.leftovers()
	s.names()
	return s.served, s.err()
}

// survey is one comparison of all methods with their rules.
type survey struct {
	*Interceptors
	guarded *rule.Set
	methods map[string]grpc.MethodInfo // that a server has, or a client may call
	vars    []string                   // of the templates of these methods
	served  []string
	faults  []string
}

func (s *survey) fault(subject, format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf("grpclock: %s: "+format, append([]any{subject}, args...)...))
}

// err lists the faults, each once.
func (s *survey) err() error {
	slices.Sort(s.faults)
	var all []error
	for _, fault := range slices.Compact(s.faults) {
		all = append(all, errors.New(fault))
	}
	return errors.Join(all...)
}

func (s *survey) server() {
	s.mu.Lock()
	servers := slices.Clone(s.servers)
	s.mu.Unlock()
	unary, stream := s.made.unaryServer.Load(), s.made.streamServer.Load()
	switch {
	case len(servers) == 0 && (unary || stream):
		s.fault("the server is not known", "call Attach(server), so that rules can be compared with its methods")
	case len(servers) > 0 && !unary && !stream:
		s.fault("a server is attached that has no interceptor", "make it with grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor())")
	}
	for _, server := range servers {
		if server == nil {
			s.fault("Attach(nil)", "give it the server")
			continue
		}
		for method, info := range methodsOf(server) {
			c := s.call(method)
			if option := s.declared(method); c.rule == nil && option != nil {
				c.rule, c.fault = option.rule, option.fault
			}
			s.add(c, info, unary, stream)
		}
	}
}

// client looks at the methods of all services in the files: a client may call
// any of them.
func (s *survey) client() {
	unary, stream := s.made.unaryClient.Load(), s.made.streamClient.Load()
	if !unary && !stream {
		return
	}
	s.files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				s.add(s.call("/"+string(service.FullName())+"/"+string(m.Name())),
					grpc.MethodInfo{IsClientStream: m.IsStreamingClient(), IsServerStream: m.IsStreamingServer()}, unary, stream)
			}
		}
		return true
	})
}

func (s *survey) call(method string) call {
	c := call{locks: s.Interceptors, method: method, rule: s.rules[method]}
	if c.rule == nil {
		c.rule, _ = s.guarded.Lookup(method)
	}
	return c
}

// add notes a method, and whether it goes through an interceptor.
func (s *survey) add(c call, info grpc.MethodInfo, unary, stream bool) {
	s.methods[c.method] = info
	if c.rule != nil {
		for _, v := range c.rule.Template.Vars() {
			s.vars = append(s.vars, v.String())
		}
	}
	through, kind, chain := unary, "unary methods", "grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor())"
	if info.IsClientStream || info.IsServerStream {
		through, kind, chain = stream, "streams", "grpc.ChainStreamInterceptor(locks.StreamServerInterceptor())"
	}
	switch {
	case through:
		s.served = append(s.served, c.method)
		for _, err := range s.check(&c, info) {
			s.fault(c.method, "%v", err)
		}
		s.fit(c)
	case c.rule != nil || c.fault != nil:
		s.served = append(s.served, c.method) // one fault says it
		s.fault(c.method, "has a rule, but the server has no interceptor for %s: add %s", kind, chain)
	}
}

// fit reports a rule of an option that the settings of the locker rule out. The guard
// checks its own.
func (s *survey) fit(c call) {
	if of, _ := s.guarded.Lookup(c.method); c.rule == nil || c.rule == of {
		return
	}
	if err := s.guard.Fits(c.rule); err != nil {
		s.fault(c.method, "%v", err)
	}
}

// leftovers reports options for methods that don't exist.
func (s *survey) leftovers() {
	known := slices.Collect(maps.Keys(s.methods))
	for method := range s.rules {
		if _, ok := s.methods[method]; !ok {
			s.fault(method, "is in WithRule, but there is no such method%s", rule.DidYouMean(method, known))
		}
	}
	for method := range s.first {
		switch info, ok := s.methods[method]; {
		case !ok:
			s.fault(method, "is in WithFirstMessage, but there is no such method%s", rule.DidYouMean(method, known))
		case !info.IsClientStream:
			s.fault(method, "is in WithFirstMessage, but clients do not stream to it")
		}
	}
}

// names reports names of options that are misspelled. A name that no template has
// isn't wrong by itself: its rule may be in another version of a file.
func (s *survey) names() {
	for name := range s.config.vars {
		s.name("WithVar", name)
	}
	for _, name := range s.identity {
		s.name("WithIdentity", name)
	}
}

func (s *survey) name(option, name string) {
	if nearest := rule.DidYouMean(name, s.vars); nearest != "" && !slices.Contains(s.vars, name) {
		s.fault(fmt.Sprintf("%s(%q)", option, name), "no template has <%s>%s", name, nearest)
	}
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
func (i *Interceptors) check(c *call, method grpc.MethodInfo) []error {
	switch {
	case c.fault != nil:
		return parts(c.fault)
	case c.rule == nil:
		return nil
	}
	descriptor := i.descriptor(c.method)
	var faults []error
	if descriptor == nil && c.rule.OnBusy == rule.Skip && !method.IsServerStream {
		faults = append(faults, errors.New("says skip, but its answers are not known: its .proto is not among the files"))
	}
	var input protoreflect.MessageDescriptor
	if descriptor != nil && (!method.IsClientStream || i.first[c.method]) {
		input = descriptor.Input()
	}
	p := i.compile(c.rule, input)
	if descriptor == nil && errors.Is(p.fault, errNoRequest) {
		return append(faults, errors.New("names fields of its requests, which are not known: its .proto is not among the files"))
	}
	return append(faults, parts(p.fault)...)
}

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

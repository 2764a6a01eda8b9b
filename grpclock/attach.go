package grpclock

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/rule"
	"github.com/redlatch/redlatch/grpclock/rpcguard"
)

// Attach declares that server uses the interceptors, and looks whether it does. Its
// methods are read when the guard is validated, and once more by the first call if
// services were registered since. The guard isn't valid, and lets nobody in, while a
// server's interceptors aren't attached.
//
// [guard.Guard.Validate] reports what would fail the first call of a method or,
// worse, not lock it:
//
//   - a server without the unary interceptor of these locks, or without that for streams:
//     a stream may be registered later. See [Unseen] for one that Attach can't look into;
//   - two interceptors of locks in one chain;
//   - a service under a second name, whose .proto has a lock for a method of that name;
//   - a rule, or a [WithFirstMessage], for a method that no server has;
//   - an option in a .proto that is no rule;
//   - a rule of an option that the settings of the locker rule out;
//   - a variable that the requests of the method have no field for, or one that
//     no key can be made of, or that may mean two things;
//   - a rule that needs a descriptor to be checked or skipped, where there is
//     none;
//   - a name in [WithVar] or [WithIdentity] that no template has, but that is nearly
//     one of theirs.
func (i *Locks) Attach(server Registry) {
	i.mu.Lock()
	i.servers = append(i.servers, server)
	i.mu.Unlock()
	i.attach()
}

// Require declares to g that each method of these services whose .proto has an option
// (redlatch.lock.v1.lock) must be served, as [rpcguard.Require] does:
//
//	grpclock.Require(g, &shopv1.Orders_ServiceDesc)
//
// So the start fails where the option would lock nothing: a gateway that calls the
// implementation in the process, or a handler of Connect.
func Require(g *guard.Guard, services ...*grpc.ServiceDesc) {
	descriptors := make([]protoreflect.ServiceDescriptor, len(services))
	for i, s := range services {
		if s == nil {
			continue
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.ServiceName))
		if descriptor, ok := found.(protoreflect.ServiceDescriptor); ok && err == nil {
			descriptors[i] = descriptor
		}
	}
	rpcguard.Require(g, descriptors...)
}

// serves runs at the first call: a service that was registered since the guard was
// validated has it validated once more.
func (i *Locks) serves() {
	i.mu.Lock()
	now := countServices(i.servers)
	changed := now != i.surveyed
	i.mu.Unlock()
	if changed {
		i.attach()
	}
}

func countServices(servers []Registry) (n int) {
	for _, server := range servers {
		if server != nil {
			n += len(server.GetServiceInfo())
		}
	}
	return n
}

// survey is what the guard knows of gRPC: the methods that go through the
// interceptors and decorators, and everything that is wrong with their locks.
func (i *Locks) survey(rules *rule.Set) (served []string, err error) {
	s := survey{Locks: i, guarded: rules, methods: make(map[string]rpcguard.Method), faults: make(map[string]error)}
	s.allServers()
	s.allDecorated()
	s.client()
	s.leftovers()
	s.names()
	return s.served, s.err()
}

// survey is one comparison of all methods with their rules.
type survey struct {
	*Locks
	guarded *rule.Set
	methods map[string]rpcguard.Method // that a server has, or a client may call
	vars    []string                   // of the templates of these methods
	served  []string
	faults  map[string]error // by their text
}

func (s *survey) fault(subject, format string, args ...any) {
	s.note(fmt.Errorf("%s: "+format, append([]any{subject}, args...)...))
}

// faultOf is a fault of a method, whose rule may be in a file.
func (s *survey) faultOf(method string, err error) {
	f, ok := err.(rule.Fault) //nolint:errorlint // one that is wrapped has more to say
	if !ok {
		f = rule.Fault{Reason: err.Error()}
	}
	f.Operation = method
	s.note(f)
}

func (s *survey) note(fault error) {
	fault = fmt.Errorf("grpclock: %w", fault)
	s.faults[fault.Error()] = fault
}

// err lists the faults, each once.
func (s *survey) err() error {
	var all []error
	for _, text := range slices.Sorted(maps.Keys(s.faults)) {
		all = append(all, s.faults[text])
	}
	return errors.Join(all...)
}

func (s *survey) allServers() {
	s.mu.Lock()
	servers := slices.Clone(s.servers)
	s.surveyed = countServices(servers)
	s.mu.Unlock()
	if len(servers) == 0 && (s.made.unaryServer.Load() || s.made.streamServer.Load()) {
		s.fault("the server is not known", "call Attach(server), so that rules can be compared with its methods")
	}
	for _, server := range servers {
		if server == nil {
			s.fault("Attach(nil)", "give it the server")
			continue
		}
		s.server(server)
	}
}

// server looks at the interceptors and the services of a server.
func (s *survey) server(server Registry) {
	found := look(server)
	unary, stream := true, true // what is missing is said once
	const cure = "if another interceptor calls it, say so by Attach(grpclock.Unseen(server))"
	switch {
	case found.trusted:
		unary, stream = s.made.unaryServer.Load(), s.made.streamServer.Load()
		if !unary && !stream {
			s.fault("a server is attached that has no interceptor", "make it with grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor())")
		}
	case found.reason != "":
		s.fault("the interceptors of a server cannot be seen", "%s: if they call those of the locks, say so by Attach(grpclock.Unseen(server))", found.reason)
	default:
		if !slices.Contains(found.unary, s.Locks) {
			s.fault("a server is attached that has no interceptor for unary methods", "make it with grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor()); "+cure)
		}
		if !slices.Contains(found.stream, s.Locks) {
			s.fault("a server is attached that has no interceptor for streams", "make it with grpc.ChainStreamInterceptor(locks.StreamServerInterceptor()); "+cure)
		}
		if len(found.unary) > 1 || len(found.stream) > 1 {
			s.fault("a server has two interceptors of locks in one chain", "crossing calls would wait for each other: "+
				"keep one, and give a method both rules, as by two options in its .proto, WithRule(method, a, b), or also: true in a file")
		}
	}
	for service, info := range server.GetServiceInfo() {
		var impl any
		if found.impl != nil {
			impl = found.impl(service)
		}
		if by := decoratorOf(impl); by != nil && by != s.Locks {
			s.fault(service, "%s", differs)
		}
		for _, m := range info.Methods {
			method := rpcguard.Method{Name: "/" + service + "/" + m.Name, ClientStream: m.IsClientStream, ServerStream: m.IsServerStream}
			if decoratorOf(impl) != nil {
				continue // it is looked at by itself
			}
			s.through(method, unary, stream, ofServer)
			s.renamed(service, info, m, method)
		}
	}
}

// renamed reports a method of a service whose name has no descriptor, if its .proto has a
// lock for a method of that name.
func (s *survey) renamed(service string, info grpc.ServiceInfo, m grpc.MethodInfo, method rpcguard.Method) {
	path, _ := info.Metadata.(string)
	file, err := s.files.FindFileByPath(path)
	if err != nil || file.Services().ByName(protoreflect.FullName(service).Name()) != nil && file.Package() == protoreflect.FullName(service).Parent() {
		return
	}
	if own, _ := s.rpc.Rules(s.guarded, method); len(own) > 0 {
		return
	}
	for i := range file.Services().Len() {
		of := file.Services().Get(i)
		original := rpcguard.Method{Name: "/" + string(of.FullName()) + "/" + m.Name}
		if rules, err := s.rpc.Rules(s.guarded, original); of.Methods().ByName(protoreflect.Name(m.Name)) != nil && (len(rules) > 0 || err != nil) {
			s.faultOf(method.Name, fmt.Errorf("is a second name of %s, whose lock it would not take: register the service under its own name, "+
				"put its decorator around it (New...ServerLock), or give this name a rule", original.Name))
		}
	}
}

// allDecorated looks at the services that have a decorator.
func (s *survey) allDecorated() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.decorated))
	s.mu.Unlock()
	for _, d := range all {
		service := d.service.ServiceName
		switch {
		case d.missing:
			s.fault(service, "its decorator has no implementation: give it the one that is to be locked")
		case d.again:
			s.fault(service, "its decorator is around another decorator: make one")
		}
		for _, m := range d.service.Methods {
			s.add(rpcguard.Method{Name: "/" + service + "/" + m.MethodName})
		}
		for _, m := range d.service.Streams {
			s.add(rpcguard.Method{Name: "/" + service + "/" + m.StreamName, ClientStream: m.ClientStreams, ServerStream: m.ServerStreams})
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
				s.through(rpcguard.Method{
					Name:         "/" + string(service.FullName()) + "/" + string(m.Name()),
					ClientStream: m.IsStreamingClient(), ServerStream: m.IsStreamingServer(), Client: true,
				}, unary, stream, ofClient)
			}
		}
		return true
	})
}

// side is what has interceptors, and how it gets them.
type side struct{ name, unary, stream string }

var (
	ofServer = side{"server", "grpc.ChainUnaryInterceptor(locks.UnaryServerInterceptor())", "grpc.ChainStreamInterceptor(locks.StreamServerInterceptor())"}
	ofClient = side{"client", "grpc.WithChainUnaryInterceptor(locks.UnaryClientInterceptor())", "grpc.WithChainStreamInterceptor(locks.StreamClientInterceptor())"}
)

// through looks at a method of a server or client that has interceptors of these kinds.
func (s *survey) through(m rpcguard.Method, unary, stream bool, of side) {
	is, kind, chain := unary, "unary methods", of.unary
	if m.ClientStream || m.ServerStream {
		is, kind, chain = stream, "streams", of.stream
	}
	if is {
		s.add(m)
		return
	}
	s.know(m)
	if rules, err := s.rpc.Rules(s.guarded, m); len(rules) > 0 || err != nil {
		s.served = append(s.served, m.Name) // one fault says it
		s.faultOf(m.Name, fmt.Errorf("has a rule, but the %s has no interceptor for %s: add %s", of.name, kind, chain))
	}
}

// know notes a method that exists, and the variables of its rules.
func (s *survey) know(m rpcguard.Method) {
	if _, known := s.methods[m.Name]; !known || !m.Client {
		s.methods[m.Name] = m
	}
	rules, _ := s.rpc.Rules(s.guarded, m)
	for _, r := range rules {
		for _, v := range r.Template.Vars() {
			s.vars = append(s.vars, v.String())
		}
	}
}

// add notes a method that goes through the locks, and what is wrong with its rules.
func (s *survey) add(m rpcguard.Method) {
	s.know(m)
	m.FirstMessage = s.first[m.Name]
	s.served = append(s.served, m.Name)
	for _, err := range s.rpc.Check(s.guarded, m) {
		s.faultOf(m.Name, err)
	}
}

// leftovers reports options for methods that don't exist.
func (s *survey) leftovers() {
	known := slices.Collect(maps.Keys(s.methods))
	for method := range s.rules {
		if _, ok := s.methods[method]; !ok {
			s.faultOf(method, errors.New("is in WithRule, but "+s.absent(method, known)))
		}
	}
	for method := range s.first {
		switch info, ok := s.methods[method]; {
		case !ok:
			s.faultOf(method, errors.New("is in WithFirstMessage, but "+s.absent(method, known)))
		case !info.ClientStream:
			s.faultOf(method, errors.New("is in WithFirstMessage, but clients do not stream to it"))
		}
	}
}

// absent says why a method isn't among the known ones.
func (s *survey) absent(method string, known []string) string {
	if s.rpc.Empty(method) == nil {
		return "there is no such method" + rule.DidYouMean(method, known)
	}
	return "nothing has the method that goes through these locks: register its service and call Attach(server), " +
		"put its decorator around it (New...ServerLock), or make the interceptors of a client"
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

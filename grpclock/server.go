package grpclock

import (
	"context"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
)

// Registry is what [Locks.Attach] needs of a server, such as a [*grpc.Server] or a type
// that embeds one.
type Registry interface {
	GetServiceInfo() map[string]grpc.ServiceInfo
}

// Unseen says of a server that its interceptors call those of the locks, though
// [Locks.Attach] can't see it: because the server isn't a [*grpc.Server], or because
// another interceptor calls them. Attach believes it.
//
//	locks.Attach(grpclock.Unseen(server))
func Unseen(server Registry) Registry { return unseen{server} }

type unseen struct{ Registry }

// seen is what a server shows of itself.
type seen struct {
	trusted       bool // it shows nothing, and the program says that it has interceptors
	unary, stream []*Locks
	reason        string // why it shows nothing
	impl          func(service string) any
}

// look looks at the interceptors of a server.
func look(server Registry) seen {
	if _, ok := server.(unseen); ok {
		return seen{trusted: true}
	}
	s, ok := serverIn(server)
	if !ok {
		return seen{reason: fmt.Sprintf("a %T is no *grpc.Server", server)}
	}
	of := reflect.ValueOf(s).Elem()
	options := of.FieldByName("opts")
	if options.Kind() != reflect.Struct {
		return seen{reason: errServer}
	}
	unary, ok := chain[grpc.UnaryServerInterceptor](options, "chainUnaryInts", "unaryInt")
	stream, also := chain[grpc.StreamServerInterceptor](options, "chainStreamInts", "streamInt")
	if !ok || !also {
		return seen{reason: errServer}
	}
	found := seen{impl: func(service string) any { return implementation(of, service) }}
	for _, interceptor := range unary {
		if by := identifyUnary(interceptor); by != nil {
			found.unary = append(found.unary, by)
		}
	}
	for _, interceptor := range stream {
		if by := identifyStream(interceptor); by != nil {
			found.stream = append(found.stream, by)
		}
	}
	return found
}

const errServer = "this version of gRPC keeps them where Attach does not look"

// serverIn returns the server that a registry is or embeds.
func serverIn(registry Registry) (*grpc.Server, bool) {
	if s, ok := registry.(*grpc.Server); ok {
		return s, s != nil
	}
	v := reflect.ValueOf(registry)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	field := v.FieldByName("Server")
	if !field.IsValid() || !field.CanInterface() {
		return nil, false
	}
	s, ok := field.Interface().(*grpc.Server)
	return s, ok && s != nil
}

// chain reads the interceptors of a kind out of the options of a server. gRPC keeps one
// that was given alone in a separate field, where it also puts the func that calls all.
func chain[T any](options reflect.Value, all, alone string) ([]T, bool) {
	list, one := options.FieldByName(all), options.FieldByName(alone)
	if !list.IsValid() || list.Type() != reflect.TypeFor[[]T]() || !one.IsValid() || one.Type() != reflect.TypeFor[T]() {
		return nil, false
	}
	// The types are the ones that were just compared, the server is alive, and nothing is
	// written.
	if interceptors := *(*[]T)(list.Addr().UnsafePointer()); len(interceptors) > 0 || one.IsNil() {
		return interceptors, true
	}
	return []T{*(*T)(one.Addr().UnsafePointer())}, true
}

// implementation returns what was registered as a service, nil if that can't be seen.
func implementation(server reflect.Value, service string) any {
	services := server.FieldByName("services")
	if services.Kind() != reflect.Map || services.Type().Key().Kind() != reflect.String {
		return nil
	}
	info := services.MapIndex(reflect.ValueOf(service))
	if !info.IsValid() || info.Kind() != reflect.Pointer || info.IsNil() || info.Elem().Kind() != reflect.Struct {
		return nil
	}
	field := info.Elem().FieldByName("serviceImpl")
	if !field.IsValid() || field.Type() != reflect.TypeFor[any]() {
		return nil
	}
	return *(*any)(field.Addr().UnsafePointer())
}

// The probes are the calls by which a survey identifies an interceptor. No client can send
// them: they are recognized by their address.
var (
	probeUnary  = &grpc.UnaryServerInfo{}
	probeStream = &grpc.StreamServerInfo{}
)

// probed is the stream of a probe.
type probed struct {
	grpc.ServerStream
	by *Locks
}

func (*probed) Context() context.Context { return context.Background() }

// code is the code of a func. All interceptors of one kind share theirs.
func code(f any) uintptr { return reflect.ValueOf(f).Pointer() }

// identifyUnary calls an interceptor of this package to learn whose it is. Others aren't
// called.
func identifyUnary(f grpc.UnaryServerInterceptor) *Locks {
	if f == nil || code(f) != code(grpc.UnaryServerInterceptor((&Locks{}).unaryServer)) {
		return nil
	}
	by, _ := f(context.Background(), nil, probeUnary, nil)
	locks, _ := by.(*Locks)
	return locks
}

func identifyStream(f grpc.StreamServerInterceptor) *Locks {
	if f == nil || code(f) != code(grpc.StreamServerInterceptor((&Locks{}).streamServer)) {
		return nil
	}
	p := &probed{}
	_ = f(nil, p, probeStream, nil)
	return p.by
}

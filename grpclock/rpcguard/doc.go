// Package rpcguard is what RPC integrations share: which rules a method has, the keys
// that are made of its request, and the answer to a call that doesn't get its locks. It
// knows no transport: a request and its metadata go in, a status comes out as data.
// Package grpclock stands on it, and so can an integration for Connect or Kratos:
//
//	locks, err := rpcguard.New(g, rpcguard.Config{By: "connectlock"})
//	locks.Serve(shopv1.File_shop_v1_orders_proto.Services().ByName("Orders"))
//
//	// For each call, around its handler:
//	inside, leave, refused := locks.Enter(ctx, rpcguard.Request{
//		Method: "/shop.v1.Orders/Place", Message: request,
//		Metadata: func(_ context.Context, name string) []string { return header.Values(name) },
//	})
//	if refused != nil {
//		return nil, errorOf(refused) // the handler must not run
//	}
//	defer leave() // also if the handler panics
//	response, err := next(inside, request)
//	if lost := leave(); lost != nil {
//		return nil, errorOf(lost)
//	}
//	return response, err
//
// The rules of a method are the first of: [Config].Rules; the guard's rules for the full
// name of the method; the options (redlatch.lock.v1.lock) of the method in its .proto. A
// method without a rule enters and takes no lock.
//
// [Require] ends the start of a program that serves a method with an option in a way that
// no integration locks.
package rpcguard

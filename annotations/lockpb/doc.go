// Package lockpb is the method option that declares a lock in a .proto:
//
//	import "redlatch/lock/v1/lock.proto";
//
//	rpc PlaceOrder(PlaceOrderRequest) returns (PlaceOrderResponse) {
//	  option (redlatch.lock.v1.lock) = {key: "lock:order:<user_id>"};
//	}
//
// Code that is generated from such a file imports this package by itself. The
// interceptors of package grpclock read the option.
//
// # Importing the .proto
//
// The folder of this package is the root to import from, and a module, so
// that its version is the one in go.mod:
//
//	protoc -I proto -I "$(go list -m -f '{{.Dir}}' github.com/redlatch/redlatch/annotations/lockpb)" ...
//
// Tools that want the file in the repository, buf among them, take a copy,
// which [Files] and that folder hold. Don't generate Go code from the copy:
// two packages that register the same names panic when a program starts.
package lockpb

import "embed"

//go:generate env GOWORK=off go -C ../.. tool -modfile=tools/go.mod buf generate --config tools/buf.yaml --template tools/buf.gen.yaml

// Files holds redlatch/lock/v1/lock.proto, for programs that compile .proto
// files or write the file out:
//
//	err := os.CopyFS("third_party/proto", lockpb.Files)
//
//go:embed redlatch/lock/v1/lock.proto
var Files embed.FS

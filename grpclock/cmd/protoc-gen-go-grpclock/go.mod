module github.com/redlatch/redlatch/grpclock/cmd/protoc-gen-go-grpclock

go 1.26.0

require (
	github.com/redlatch/redlatch/grpclock v0.1.0
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/redlatch/redlatch v0.1.0 // indirect
	github.com/redlatch/redlatch/annotations/lockpb v0.1.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c // indirect
	google.golang.org/grpc v1.85.0 // indirect
)

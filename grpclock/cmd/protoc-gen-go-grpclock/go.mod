module github.com/redlatch/redlatch/grpclock/cmd/protoc-gen-go-grpclock

go 1.26.0

require (
	github.com/redlatch/redlatch v0.1.0
	github.com/redlatch/redlatch/annotations/lockpb v0.1.0
	github.com/redlatch/redlatch/grpclock v0.1.0
	google.golang.org/protobuf v1.36.12
)

module github.com/redlatch/redlatch/annotations/lockpb

go 1.26.0

replace github.com/redlatch/redlatch => ../..

require (
	github.com/redlatch/redlatch v0.1.0
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
)

module github.com/redlatch/redlatch/contrib/hertzlock

go 1.26.0

replace github.com/redlatch/redlatch => ../..

require (
	github.com/cloudwego/hertz v0.10.4
	github.com/redlatch/redlatch v0.1.0
	go.uber.org/goleak v1.3.0
)

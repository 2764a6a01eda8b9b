module github.com/redlatch/redlatch/annotations/cmd/lockgen

go 1.26.0

require (
	github.com/redlatch/redlatch v0.1.0
	github.com/rogpeppe/go-internal v1.16.0
	go.uber.org/goleak v1.3.0
	golang.org/x/tools v0.52.0
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

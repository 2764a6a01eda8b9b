module github.com/redlatch/redlatch/contrib/cronlock

go 1.26.0

toolchain go1.26.11

replace github.com/redlatch/redlatch => ../..

require (
	github.com/redlatch/redlatch v0.0.0-00010101000000-000000000000
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/goleak v1.3.0
)

module github.com/redlatch/redlatch/contrib/cronlock

go 1.26.0

replace github.com/redlatch/redlatch => ../..

require (
	github.com/redlatch/redlatch v0.1.0
	github.com/robfig/cron/v3 v3.0.1
	go.uber.org/goleak v1.3.0
)

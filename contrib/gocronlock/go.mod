module github.com/redlatch/redlatch/contrib/gocronlock

go 1.26.0

replace github.com/redlatch/redlatch => ../..

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	github.com/jonboulle/clockwork v0.5.0
	github.com/redlatch/redlatch v0.1.0
	go.uber.org/goleak v1.3.0
)

require github.com/robfig/cron/v3 v3.0.1 // indirect

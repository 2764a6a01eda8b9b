module github.com/redlatch/redlatch/test/browser

go 1.26.0

toolchain go1.26.11

replace github.com/redlatch/redlatch => ../..

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/redlatch/redlatch v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect

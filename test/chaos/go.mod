module github.com/redlatch/redlatch/test/chaos

go 1.26.0

toolchain go1.26.11

replace github.com/redlatch/redlatch => ../..

require (
	github.com/alecthomas/kong v1.17.0
	github.com/anishathalye/porcupine v1.3.1
	github.com/jedib0t/go-pretty/v6 v6.8.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redlatch/redlatch v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

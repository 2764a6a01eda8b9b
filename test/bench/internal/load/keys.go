package load

import (
	"context"
	"runtime"
	"time"

	"github.com/redlatch/redlatch/test/bench/internal/meter"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
)

// keys locks many keys once each, and looks at what they leave behind.
type keys struct {
	config     Config
	locker     peer.Locker
	names      []string
	goroutines int
	live       uint64
	started    meter.Usage
	used       meter.Usage
	took       time.Duration
}

func newKeys(config Config, locker peer.Locker) *keys {
	return &keys{config: config, locker: locker, names: names("once", config.Count)}
}

func (k *keys) warm(ctx context.Context) error {
	if err := once(ctx, k.locker, names("warm", 20*k.config.Goroutines), k.config.Goroutines); err != nil {
		return err
	}
	k.live = meter.Live()
	k.goroutines = runtime.NumGoroutine()
	return nil
}

// measure returns when all keys are done.
func (k *keys) measure(ctx context.Context) error {
	k.started = meter.ReadUsage()
	start := time.Now()
	err := once(ctx, k.locker, k.names, k.config.Goroutines)
	k.took = time.Since(start)
	k.used = meter.ReadUsage()
	return err
}

func (k *keys) stop(ctx context.Context) (*Result, error) {
	// Goroutines of the last unlocks may still be about to end.
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > k.goroutines && time.Now().Before(deadline); {
		pause(ctx, 10*time.Millisecond)
	}
	return &Result{
		Ops: int64(len(k.names)), CPU: k.used.CPU - k.started.CPU, Allocs: k.used.Allocs - k.started.Allocs,
		Values: map[string]float64{
			Rate:       float64(len(k.names)) / k.took.Seconds(),
			Goroutines: float64(max(0, runtime.NumGoroutine()-k.goroutines)), // some of the warm-up may have ended
			Bytes:      float64(meter.Live()) - float64(k.live),
		},
	}, nil
}

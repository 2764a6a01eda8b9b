package meter

import (
	"runtime"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is a reading of what this process has used. It only rises.
type Usage struct {
	CPU    time.Duration // user and system
	Allocs uint64        // objects on the heap
}

// ReadUsage reads it.
func ReadUsage() Usage {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // fails only for a wrong argument
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return Usage{
		CPU:    time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		Allocs: sample[0].Value.Uint64(),
	}
}

// Live is the memory that this process can't do without: what is left of the
// heap after a collection, and the stacks.
func Live() uint64 {
	runtime.GC()
	runtime.GC() // the first one leaves what has finalizers
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

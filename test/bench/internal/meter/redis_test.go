package meter

import (
	"testing"
	"time"
)

const (
	statsBefore = "# Commandstats\r\ncmdstat_set:calls=10,usec=50,usec_per_call=5.00,rejected_calls=0,failed_calls=0\r\n"
	statsAfter  = "# Commandstats\r\ncmdstat_set:calls=15,usec=80,usec_per_call=5.33,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_evalsha:calls=5,usec=100,usec_per_call=20.00,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_get:calls=5,usec=7,usec_per_call=1.40,rejected_calls=0,failed_calls=0\r\n"
	cpu = "# CPU\r\nused_cpu_sys:9.000000\r\nused_cpu_sys_main_thread:1.500000\r\nused_cpu_user_main_thread:0.250000\r\n"
)

func TestOnlyCountedCommandsAreCounted(t *testing.T) {
	before, err := parse(statsBefore, cpu)
	if err != nil {
		t.Fatal(err)
	}
	after, err := parse(statsAfter, cpu)
	if err != nil {
		t.Fatal(err)
	}
	if after.CPU != 1750*time.Millisecond {
		t.Errorf("CPU of the main thread: %v, want 1.75s", after.CPU)
	}
	calls, inside := after.Since(before, func(command string) bool { return command != "get" })
	if calls != 10 || inside != 130*time.Microsecond {
		t.Errorf("%d calls, %v inside, want 10 and 130µs", calls, inside)
	}
}

func TestWhatIsNoInfoIsAnError(t *testing.T) {
	if _, err := parse("cmdstat_set:calls=many\r\n", cpu); err == nil {
		t.Error("no error for a count that is no number")
	}
	if _, err := parse(statsBefore, "used_cpu_sys:1\r\n"); err == nil {
		t.Error("no error without the time of the main thread")
	}
}

func TestUsageRises(t *testing.T) {
	before := ReadUsage()
	var kept [][]byte
	for range 1000 {
		kept = append(kept, make([]byte, 1024))
	}
	after := ReadUsage()
	// The runtime counts the last few of each size later.
	if after.Allocs < before.Allocs+uint64(len(kept))*9/10 || after.CPU < before.CPU {
		t.Errorf("from %+v to %+v", before, after)
	}
	if Live() == 0 {
		t.Error("a program without memory")
	}
}

package circuit

import "time"

// Trip estimates how long a server takes to answer, as TCP does (RFC 6298): a smoothed time
// and its variation. The zero value has measured nothing.
type Trip struct {
	measured         bool
	smoothed, varies time.Duration
}

// Measure adds the time that an answer took.
func (t *Trip) Measure(took time.Duration) {
	if !t.measured {
		t.measured, t.smoothed, t.varies = true, took, took/2
		return
	}
	t.varies += ((took - t.smoothed).Abs() - t.varies) / 4
	t.smoothed += (took - t.smoothed) / 8
}

// Patience is how long to wait for an answer before its absence means something: twice the
// time after which TCP would send again, between least and [MaxPatience]. It is unmeasured
// while nothing has been measured.
func (t *Trip) Patience(least, unmeasured time.Duration) time.Duration {
	if !t.measured {
		return unmeasured
	}
	return min(max(least, 2*(t.smoothed+4*t.varies)), MaxPatience)
}

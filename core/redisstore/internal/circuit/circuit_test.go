package circuit

import (
	"slices"
	"testing"
	"time"
)

var (
	settings = Settings{Failures: 3, Pause: 250 * time.Millisecond}
	start    = time.Unix(1_000, 0)
)

// at is so long after the start.
func at(d time.Duration) time.Time { return start.Add(d) }

const ms = time.Millisecond

// failing is a breaker with so many failures, the last of them at the start.
func failing(n int) (b Breaker) {
	for i := range n {
		then := at(-time.Duration(n-1-i) * time.Second)
		b.Failed(settings, then.Add(-time.Millisecond), then)
	}
	return b
}

func begun(times ...time.Time) func(func(time.Time) bool) { return slices.Values(times) }

// probed is b with a probe at the start, on so many idle connections.
func probed(b Breaker, idle int) Breaker {
	if b.Probe(settings, at(0), begun()) {
		b.Pings(idle)
	}
	return b
}

// The transitions of the package comment.
func TestTransitions(t *testing.T) {
	fail := func(b *Breaker) { b.Failed(settings, at(ms), at(2*ms)) }
	probe := func(b *Breaker) { *b = probed(*b, 1) }
	giveUp := func(b *Breaker) { b.GiveUp(at(0)) }
	answer := func(b *Breaker) { b.Answered(settings, at(ms), at(2*ms)) }
	doubted, closed, open := failing(1), failing(0), failing(3)
	tests := map[string]struct {
		from Breaker
		do   func(*Breaker)
		want State
	}{
		"closed, a failure":                        {closed, fail, Closed},
		"closed, as many as it takes":              {failing(2), fail, Open},
		"closed, as many, and a probe is sent":     {probed(failing(2), 1), fail, Probing},
		"closed, a probe of a doubt":               {doubted, probe, Closed},
		"closed, a probe given up":                 {probed(doubted, 1), giveUp, Closed},
		"open, a failure":                          {open, fail, Open},
		"open, a probe":                            {open, probe, Probing},
		"open, a probe given up":                   {open, giveUp, Open},
		"open, an answer":                          {open, answer, Closed},
		"probing, a failure":                       {probed(open, 1), fail, Probing},
		"probing, the probe given up":              {probed(open, 1), giveUp, Open},
		"probing, an answer":                       {probed(open, 1), answer, Closed},
		"probing, another probe given up":          {probed(open, 1), func(b *Breaker) { b.GiveUp(at(-time.Second)) }, Probing},
		"probing, all PINGs ended":                 {probed(open, 0), func(b *Breaker) { b.Pinged(); b.GiveUp(time.Time{}) }, Open},
		"open, a probe while a PING has no answer": {probed(open, 1), func(b *Breaker) { giveUp(b); b.Probe(settings, at(time.Second), begun()) }, Open},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.do(&tt.from); tt.from.State() != tt.want {
				t.Errorf("state %d, want %d", tt.from.State(), tt.want)
			}
		})
	}
}

// Who gave up says something once nobody was answered for twice as long as TCP would wait.
func TestPatienceFollowsTheAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answers []time.Duration
		silence time.Duration
		wait    time.Duration
	}{
		"never heard":        {nil, time.Second, 50 * ms},
		"next to it":         {slices.Repeat([]time.Duration{ms / 2}, 50), 100 * ms, 50 * ms},
		"far away":           {slices.Repeat([]time.Duration{200 * ms}, 50), 400 * ms, 400 * ms},
		"far away, once":     {[]time.Duration{100 * ms}, 600 * ms, 600 * ms}, // half of it may be variation
		"a day's way":        {slices.Repeat([]time.Duration{time.Minute}, 50), time.Second, time.Second},
		"one stall, forgot.": {slices.Concat([]time.Duration{time.Minute}, slices.Repeat([]time.Duration{ms}, 150)), 100 * ms, 50 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			var b Breaker
			now := start
			for _, took := range tt.answers {
				now = now.Add(took)
				b.Answered(settings, now.Add(-took), now)
			}
			near := func(got, want time.Duration) bool { return (got - want).Abs() <= want/100 }
			if got := b.silence(); !near(got, tt.silence) {
				t.Errorf("silence %v, want %v", got, tt.silence)
			}
			if got := b.Wait(); !near(got, tt.wait) {
				t.Errorf("wait %v, want %v", got, tt.wait)
			}
			gaveUp := func(enough int) int { return enough }
			sent := now.Add(ms)
			for _, late := range []bool{false, true} {
				after := b.silence() - ms
				if late {
					after += 2 * ms
				}
				c := b
				if got := c.Deserted(settings, sent.Add(after), begun(sent), gaveUp); got != late {
					t.Errorf("deserted after %v: %v", after, got)
				}
			}
		})
	}
}

// What failed together counts once; what was sent before an answer not at all.
func TestWhichFailuresCount(t *testing.T) {
	heard := failing(0)
	heard.Answered(settings, at(-2*ms), at(-ms))
	for name, tt := range map[string]struct {
		from  Breaker
		began time.Duration
		now   time.Duration
		want  bool
	}{
		"the first":                        {failing(0), 0, ms, true},
		"sent after the last":              {failing(1), ms, 2 * ms, true},
		"under way together with the last": {failing(1), -ms, ms, false},
		"under way for long":               {failing(1), -ms, 2 * time.Second, true},
		"sent before the last answer":      {heard, -3 * ms, ms, false},
		"sent after the last answer":       {heard, ms, 2 * ms, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.from.Failed(settings, at(tt.began), at(tt.now)); got != tt.want {
				t.Errorf("counts: %v", got)
			}
		})
	}
	var off Breaker
	for i := range 100 {
		if off.Failed(Settings{}, at(time.Duration(i)*time.Second), at(time.Duration(i+1)*time.Second)) {
			t.Fatal("counted though it is off")
		}
	}
	if off.Probe(Settings{}, at(time.Hour), begun()) {
		t.Error("it is off, and probes")
	}
}

// PINGs without an answer are bounded, and so far between as the settings say.
func TestProbesAreBounded(t *testing.T) {
	b := failing(3)
	sent, now := 0, start
	for range 100 {
		now = now.Add(settings.Pause / 2)
		if b.Probe(settings, now, begun()) {
			if n := b.Pings(7); n < 0 || n > 8 {
				t.Fatalf("%d PINGs", n)
			} else {
				sent += n
			}
			b.GiveUp(now)
		}
	}
	if sent != MaxPings {
		t.Errorf("%d PINGs without an answer, want %d", sent, MaxPings)
	}
	for range MaxPings {
		b.Pinged()
	}
	if !b.Probe(settings, now.Add(settings.Pause), begun()) {
		t.Error("no probe though no PING is under way")
	}
}

// A circuit that acquisitions still come to is not forgotten.
func TestFailuresAreForgotten(t *testing.T) {
	b := failing(3)
	if b.Admits(at(0)) {
		t.Error("an open circuit admits")
	}
	if left := b.Forget(at(ForgetAfter / 2)); left != ForgetAfter/2 || b.State() != Open {
		t.Errorf("%v left, state %d", left, b.State())
	}
	if left := b.Forget(at(ForgetAfter)); left != 0 || !b.Clean() {
		t.Errorf("%v left, clean: %v", left, b.Clean())
	}
}

package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/telemetry"
)

// page is where lines are written; hooks run on many goroutines, but a slog
// handler writes one line at a time.
type page struct{ bytes.Buffer }

func (p *page) logger(level slog.Level) telemetry.Option {
	return telemetry.WithLogger(slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
}

func (p *page) lines() []string {
	return strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
}

func TestLogLines(t *testing.T) {
	const order = `redlatch.template=order:<userId> redlatch.mode=exclusive`
	for name, tt := range map[string]struct {
		happens func(*telemetry.Telemetry, lock.Hooks, lock.Event)
		want    string
	}{
		"loss": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Lost(lock.LossEvent{Event: e, Context: context.Background(), Reason: lock.LossNotRenewed, Held: 90 * time.Second, Cause: errSecret})
		}, `level=WARN msg="lock is lost" ` + order + ` redlatch.reason=not_renewed held=1m30s`},
		"loss, and whose": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Lost(lock.LossEvent{
				Event: e, Context: context.Background(), Reason: lock.LossTaken, Owner: "secret",
				Holder: lock.Identity{Service: "shop", Host: "web-1", PID: 7, Version: "v1"},
			})
		}, `level=WARN msg="lock is lost" ` + order + ` redlatch.reason=taken held=0s service=shop host=web-1 pid=7`},
		"loss, and why the store was away": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Lost(lock.LossEvent{Event: e, Context: context.Background(), Reason: lock.LossNotRenewed, Cause: &lock.StoreError{Class: "READONLY", Err: errSecret}})
		}, `level=WARN msg="lock is lost" ` + order + ` cause=READONLY redlatch.reason=not_renewed held=0s`},
		"next reason of a loss": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Lost(lock.LossEvent{Event: e, Context: context.Background(), Reason: 200})
		}, `level=WARN msg="lock is lost" ` + order + ` redlatch.reason=reason(200) held=0s`},
		"unconfirmed release": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Released(lock.ReleaseEvent{Event: e, Last: true, Err: fmt.Errorf("%w: %w", lock.ErrUnavailable, errSecret)})
		}, `level=WARN msg="lock release is not confirmed, it goes on in the background" ` + order + ` cause=unknown`},
		"release of what is lost": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Released(lock.ReleaseEvent{Event: e, Err: lock.ErrLost}) // its loss has been reported
		}, ""},
		"a leader is elected": {
			func(t *telemetry.Telemetry, _ lock.Hooks, _ lock.Event) { t.Elected("billing", 7) },
			`level=INFO msg="elected as leader" redlatch.template=billing term=7`,
		},
		"a leader resigns": {
			func(t *telemetry.Telemetry, _ lock.Hooks, _ lock.Event) { t.Resigned("billing", 7, errSecret) },
			`level=INFO msg="resigned as leader" redlatch.template=billing term=7`,
		},
		"a leader loses its term": {
			func(t *telemetry.Telemetry, _ lock.Hooks, _ lock.Event) { t.TermLost("", 7, errSecret) },
			`level=WARN msg="lost the term as leader" redlatch.template=_other term=7`,
		},
		"failed renewal": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Renewed(lock.RenewEvent{Event: e, Err: &lock.StoreError{Class: "timeout", Err: errSecret}})
		}, `level=INFO msg="lock renewal failed, it is tried again" ` + order + ` cause=timeout`},
		"lost renewal": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Renewed(lock.RenewEvent{Event: e, Err: lock.ErrNotHeld}) // its loss will be reported
		}, ""},
		"refused key": {func(made *telemetry.Telemetry, _ lock.Hooks, e lock.Event) {
			made.KeyFailed(context.Background(), e.Name, "missing")
		}, `level=DEBUG msg="lock key cannot be made" redlatch.template=order:<userId> redlatch.reason=missing`},
		"what goes well": {func(_ *telemetry.Telemetry, h lock.Hooks, e lock.Event) {
			h.Acquired(context.Background(), lock.AcquireEvent{Event: e})
			h.Acquired(context.Background(), lock.AcquireEvent{Event: e, Err: lock.ErrBusy})
			h.Renewed(lock.RenewEvent{Event: e})
			h.Released(lock.ReleaseEvent{Event: e, Last: true})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var p page
			made := newTelemetry(t, telemetry.WithMeterProvider(newMeter().provider), p.logger(slog.LevelDebug))
			tt.happens(made, made.Hooks(), lock.Event{Key: "order:42", Name: "order:<userId>"})
			// The quotes stand where slog's text format needs them.
			got := strings.TrimSpace(strings.ReplaceAll(p.String(), `"order:<userId>"`, "order:<userId>"))
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAStormIsOneLineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p page
		made := newTelemetry(t, telemetry.WithMeterProvider(newMeter().provider), p.logger(slog.LevelInfo))
		hooks := made.Hooks()
		lose := func(n int) {
			for range n {
				hooks.Lost(lock.LossEvent{Context: t.Context()})
			}
		}
		lose(5000)
		hooks.Renewed(lock.RenewEvent{Err: errSecret}) // another kind is not drowned
		if got := p.lines(); len(got) != 2 || !strings.Contains(got[1], "renewal") {
			t.Errorf("%d lines, want a loss and a renewal: %q", len(got), got)
		}
		time.Sleep(time.Second)
		lose(2)
		time.Sleep(time.Second)
		lose(1)
		got := p.lines()
		if len(got) != 4 || !strings.HasSuffix(got[2], "suppressed=4999") || !strings.HasSuffix(got[3], "suppressed=1") {
			t.Errorf("then: %q, want what was suppressed to be reported once", got[2:])
		}
	})
}

// Whatever happens, a reader of metrics, spans or logs sees no key, no owner
// and nothing that the store said, unless an option shows keys.
func TestNothingSecretIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []telemetry.Option
		want bool // is the key shown
	}{
		"default": {nil, false},
		"key attribute": {[]telemetry.Option{
			telemetry.WithKeyAttribute(func(key string) string { return "<" + key + ">" }),
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p page
				l := newTraced(t, append(tt.opts, telemetry.WithSpans(telemetry.SpansAll), p.logger(slog.LevelDebug))...)
				ctx, request := l.request(t)
				oneOfEach(t, l, ctx)
				lease := acquire(t, l.Locker, ctx, "order:42")
				secrets := []string{"WRONGPASS", "10.0.0.7", lease.Owner()}
				l.store.renew.Store(true)
				l.store.release.Store(true)
				<-lease.Context().Done()
				other := acquire(t, l.Locker, ctx, "order:42")
				_ = other.Release(ctx)
				l.store.release.Store(false)
				l.store.renew.Store(false)
				synctest.Wait()
				request.End()
				seen := p.String() + strings.Join(l.ended(), "\n")
				for _, s := range l.spans.Ended() {
					seen += fmt.Sprint(s.Status(), s.Events(), s.Links())
				}
				if !strings.Contains(seen, "lock is lost") || !strings.Contains(seen, "not confirmed") || !strings.Contains(seen, "lock.lost") {
					t.Fatalf("the story is not whole: %s", seen)
				}
				for _, secret := range secrets {
					if strings.Contains(seen, secret) {
						t.Errorf("%q is shown: %s", secret, seen)
					}
				}
				if got := strings.Contains(seen, "<order:42>"); got != tt.want {
					t.Errorf("what the option makes of the key is shown: %v", got)
				}
				if strings.Contains(strings.ReplaceAll(seen, "<order:42>", ""), "order:42") {
					t.Errorf("the key is shown: %s", seen)
				}
			})
		})
	}
}

func TestKeyAttributeIsNotForMetrics(t *testing.T) {
	m := newMeter()
	made := newTelemetry(t, telemetry.WithMeterProvider(m.provider),
		telemetry.WithKeyAttribute(func(key string) string { return key }))
	l := newLocker(t, newFragile(), lock.WithHooks(made.Hooks()))
	_ = acquire(t, l, t.Context(), "order:42")
	_, _ = l.ForceRelease(t.Context(), "order:42")
	for series := range m.series(t) {
		if strings.Contains(series, "42") {
			t.Error(series)
		}
	}
}

package telemetry

import (
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Option is a setting of [New].
type Option func(*options)

type options struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	log     *slog.Logger
	spans   Spans
	keyOf   func(string) string
}

func newOptions(opts []Option) (*options, error) {
	o := &options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), log: slog.Default()}
	for _, apply := range opts {
		if apply == nil {
			return nil, errors.New("telemetry.New: an option is nil")
		}
		apply(o)
	}
	if o.spans > SpansNone {
		return nil, fmt.Errorf("telemetry.New: WithSpans(%d): there is no such choice", o.spans)
	}
	return o, nil
}

// WithMeterProvider sets where metrics go. Default: the global provider. nil is
// ignored.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(o *options) {
		if p != nil {
			o.meters = p
		}
	}
}

// WithTracerProvider sets where spans go. Default: the global provider. nil is
// ignored.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *options) {
		if p != nil {
			o.tracers = p
		}
	}
}

// WithLogger sets where log lines go. Default: [slog.Default] at the time of
// [New]. nil is ignored; a logger on [slog.DiscardHandler] keeps silent.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) {
		if log != nil {
			o.log = log
		}
	}
}

// WithKeyAttribute adds f(key) to spans and log lines, as redlatch.key; metrics
// never have it. f is called for every span and line, so it must be fast. A hash
// doesn't hide a key that can be guessed, such as one with a user's number.
// Default: no key at all. A nil f is ignored.
func WithKeyAttribute(f func(key string) string) Option {
	return func(o *options) {
		if f != nil {
			o.keyOf = f
		}
	}
}

// WithSpans says which acquisitions become spans. Default [SpansWaited].
func WithSpans(s Spans) Option { return func(o *options) { o.spans = s } }

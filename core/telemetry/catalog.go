package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redlatch/redlatch/core/lock"
)

// MaxNames is how many names of locks have their own series. Names beyond,
// and locks without a name, are recorded as "_other".
const MaxNames = 200

const otherName = "_other"

const (
	templateKey  = attribute.Key("redlatch.template")
	modeKey      = attribute.Key("redlatch.mode")
	outcomeKey   = attribute.Key("redlatch.outcome")
	reasonKey    = attribute.Key("redlatch.reason")
	lockKeyKey   = attribute.Key("redlatch.key")
	serverKey    = attribute.Key("redlatch.server")
	errorTypeKey = attribute.Key("error.type")
)

// catalog has the series of every name. A name that is in it stays, so that
// what was counted up under a name is counted down under the same one.
type catalog struct {
	other *series
	known atomic.Pointer[map[string]*series] // replaced, never changed
	grow  sync.Mutex
}

func newCatalog() *catalog {
	c := &catalog{other: newSeries(otherName)}
	c.known.Store(&map[string]*series{})
	return c
}

// of returns the series of a name. It takes a lock only for a new one.
func (c *catalog) of(name string) *series {
	if name == "" {
		return c.other
	}
	known := *c.known.Load()
	if s, ok := known[name]; ok {
		return s
	}
	if len(known) >= MaxNames {
		return c.other
	}
	return c.add(name)
}

func (c *catalog) add(name string) *series {
	c.grow.Lock()
	defer c.grow.Unlock()
	known := *c.known.Load()
	if s, ok := known[name]; ok {
		return s
	}
	if len(known) >= MaxNames {
		return c.other
	}
	more := maps.Clone(known)
	s := newSeries(name)
	more[name] = s
	c.known.Store(&more)
	return s
}

// Attributes are made once and kept as the lists that measurements take, as
// making them costs more than measuring.
type (
	addOptions    = []metric.AddOption
	recordOptions = []metric.RecordOption
)

// series are the attributes of everything that is measured under one name.
type series struct {
	template    attribute.KeyValue
	term        uint64 // of the leader in this process; guarded by Telemetry.leading
	named       addOptions
	losses      [len(lossReasons) + 1]addOptions // the last is for any other
	keyFailures [len(keyReasons)]addOptions
	modes       [cachedModes]atomic.Pointer[modal] // made when first used
}

// cachedModes is how many modes have attributes that are kept. Those of others,
// should there ever be any, are made for each measurement.
const cachedModes = 16

// modal are the instruments that also have a mode.
type modal struct {
	acquired [len(results)]recordOptions
	held     [len(ends)]recordOptions
}

func newSeries(name string) *series {
	s := &series{template: templateKey.String(name)}
	s.named = addWith(s.template)
	for i, reason := range lossReasons {
		s.losses[i] = addWith(s.template, reasonKey.String(reason.String()))
	}
	s.losses[len(lossReasons)] = addWith(s.template, reasonKey.String("_OTHER"))
	for i, reason := range keyReasons {
		s.keyFailures[i] = addWith(s.template, reasonKey.String(reason))
	}
	return s
}

func (s *series) of(m lock.Mode) *modal {
	if int(m) >= cachedModes {
		return s.modal(m)
	}
	made := s.modes[m].Load()
	if made == nil {
		made = s.modal(m)
		s.modes[m].Store(made) // another one that was made meanwhile is equal
	}
	return made
}

func (s *series) modal(m lock.Mode) *modal {
	made := &modal{}
	for r, result := range results {
		made.acquired[r] = recordWith(s.template, m, result.outcome, result.errorType)
	}
	for e, end := range ends {
		made.held[e] = recordWith(s.template, m, end.outcome, end.errorType)
	}
	return made
}

// lost are the attributes of a loss.
func (s *series) lost(r lock.LossReason) addOptions {
	return s.losses[min(int(r), len(lossReasons))]
}

// renewalAttributes have no template: renewals of all locks go out together.
var renewalAttributes = func() (all [len(renewals)]addOptions) {
	for r, outcome := range renewals {
		all[r] = addWith(outcomeKey.String(outcome))
	}
	return all
}()

func addWith(attributes ...attribute.KeyValue) addOptions {
	return addOptions{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

func recordWith(template attribute.KeyValue, m lock.Mode, outcome, errorType string) recordOptions {
	attributes := []attribute.KeyValue{template, modeKey.String(m.String()), outcomeKey.String(outcome)}
	if errorType != "" {
		attributes = append(attributes, errorTypeKey.String(errorType))
	}
	return recordOptions{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

package voucher

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a draft.
const (
	MaxTitle = 200 // characters
	MaxStock = 1_000_000_000
)

// Draft is a voucher to be created.
type Draft struct {
	Title   string
	Stock   int64
	BeginAt time.Time
	EndAt   time.Time
}

// check returns an [*InvalidError] that lists every fault, or nil.
func (d Draft) check() error {
	var faults []Fault
	fault := func(field, format string, args ...any) {
		faults = append(faults, Fault{field, fmt.Sprintf(format, args...)})
	}
	switch n := utf8.RuneCountInString(d.Title); {
	case strings.TrimSpace(d.Title) == "":
		fault("title", "must not be empty")
	case n > MaxTitle:
		fault("title", "must have at most %d characters, has %d", MaxTitle, n)
	case strings.ContainsFunc(d.Title, unicode.IsControl):
		fault("title", "must not hold control characters")
	}
	if d.Stock < 1 || d.Stock > MaxStock {
		fault("stock", "must be between 1 and %d, is %d", MaxStock, d.Stock)
	}
	inCalendar := true
	for _, at := range []struct {
		field string
		time.Time
	}{{"beginAt", d.BeginAt}, {"endAt", d.EndAt}} {
		switch year := at.UTC().Year(); {
		case at.IsZero():
			fault(at.field, "must be a time in RFC 3339, such as 2026-01-02T15:04:05Z")
			inCalendar = false
		case year < 1970 || year > 9998:
			// What every one of the databases can store.
			fault(at.field, "must be between the years 1970 and 9998")
			inCalendar = false
		}
	}
	if inCalendar && !stamp(d.BeginAt).Before(stamp(d.EndAt)) { // as they are stored
		fault("endAt", "must be after beginAt")
	}
	if faults != nil {
		return &InvalidError{faults}
	}
	return nil
}

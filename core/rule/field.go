package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/rule/internal/extra"
)

// Kind is the type of a [Field]'s value, and how it is written.
type Kind uint8

const (
	// String is a printable string.
	String Kind = iota
	// Duration is a number and its unit, as [time.ParseDuration] reads them,
	// without a sign: "200ms".
	Duration
	// Count is a whole number of at least 1.
	Count
	// Permits is how many of how many: "1/3".
	Permits
	// Choice is one of [Field.Choices].
	Choice
	// Flag is "true" or "false".
	Flag
)

// Field describes one field of a [Rule]. The same table is behind the string
// form of a rule, files, directives, the option in a .proto, JSON and the schema,
// so that a field exists in all of them or in none.
type Field struct {
	Name    string // as it is written everywhere
	Kind    Kind
	Doc     string   // for the schema and for documents
	Default string   // what leaving it out means
	Choices []string // of kind [Choice]

	set    func(r *Rule, value string) error // value is not empty
	get    func(r *Rule) string              // empty where the field has its default
	check  func(r *Rule) string              // what is wrong with the field, if anything
	option func(r *Rule) lock.Option         // nil, or returns nil: none
}

const (
	fieldOperation = "operation"
	fieldKey       = "key"
	fieldMode      = "mode"
	fieldPermits   = "permits"
	fieldWait      = "wait"
	fieldOnBusy    = "onBusy"
	fieldName      = "name"
	fieldAlso      = "also"
)

// fields is the table. A new field is one row here, and a field of [Rule].
var fields = []Field{
	plain(fieldOperation, "What takes the lock: the method and the registered path of an HTTP route, "+
		"the full method of gRPC, or the name that the program enters it by.",
		func(r *Rule) *string { return &r.Operation }),
	plain(fieldKey, "The template of the lock's key: a string with variables <[source.]name[|filter]>. "+
		"Sources are path, query, header, cookie, form, body, ctx, md and req; filters are int, uuid, lower and sha256. "+
		"One pair of braces is a hash tag of Redis Cluster.",
		func(r *Rule) *string { return &r.Key }),
	choice(fieldMode, "The kind of lock: one owner (exclusive), one owner in order of arrival (fair), many readers (read) "+
		"or one writer (write), or as many owners as there are permits (semaphore).",
		func(r *Rule) *lock.Mode { return &r.Mode }, lock.ParseMode,
		lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore),
	permits(),
	duration(fieldWait, "How long to wait for the lock, as in 200ms, 1.5s or 2m. 0 tries once; there is no value for ever.",
		func(r *Rule) *time.Duration { return &r.Wait }, 0, "0 to try once or the longest time to wait", lock.WithWait),
	duration("timeout", "How long one call to the store may take. By default, and with 0, what the locker says.",
		func(r *Rule) *time.Duration { return &r.Timeout }, time.Millisecond, "0 for what the locker says",
		lock.WithCallTimeout),
	count("maxWaiters", "How many may wait for one key of the rule in one process at a time; one more is refused at once, "+
		"as overloaded. By default what the locker says.",
		func(r *Rule) *int { return &r.MaxWaiters }, lock.WithMaxWaiters),
	duration("lease", "How long the lock is held at most, as in 30s. 0 is as long as the work runs, kept alive by the watchdog.",
		func(r *Rule) *time.Duration { return &r.Lease }, lock.MinLease, "0 for a lease that the watchdog keeps alive",
		lock.WithLease),
	minHold(),
	duration("maxHold", "How long the lock is held at most however the watchdog renews it, as in 10m. By default, and with 0, "+
		"what the locker says.",
		func(r *Rule) *time.Duration { return &r.MaxHold }, lock.MinLease, "0 for what the locker says",
		lock.WithMaxHold),
	choice(fieldOnBusy, "What happens when another owner holds the lock: the operation fails as contended (reject), or ends "+
		"successfully without its work (skip). There is no way to run without the lock.",
		func(r *Rule) *OnBusy { return &r.OnBusy }, ParseOnBusy, Reject, Skip),
	plain(fieldName, "What metrics and logs call the rule; it must not hold anything of a request. By default the key's template.",
		func(r *Rule) *string { return &r.Name }),
	flag("overlaps", "Says that the key is meant to be the same as that of a rule whose template has other variables in the "+
		"same places. Without it such a pair is an error, unless the other rule says so.",
		func(r *Rule) *bool { return &r.Overlaps }),
	flag(fieldAlso, "Says that the operation has another rule as well, and takes the locks of both: all or none, in an order in which "+
		"callers cannot block each other. Without it a second rule for an operation is an error, unless the other rule says so.",
		func(r *Rule) *bool { return &r.Also }),
	flag("optional", "Says that the operation need not exist, for one file that several services read. Without it a rule "+
		"that nothing serves ends the start.",
		func(r *Rule) *bool { return &r.Optional }),
}

// Fields returns the table of fields, in the order in which a rule is written.
func Fields() []Field { return slices.Clone(fields) }

func init() {
	extra.Add = func(name string) (remove func()) {
		before := fields
		fields = append(slices.Clip(fields), duration(name, "A field of a test.",
			func(r *Rule) *time.Duration { return &r.Timeout }, time.Millisecond, "0", lock.WithCallTimeout))
		return func() { fields = before }
	}
}

func fieldNamed(name string) (*Field, bool) {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil, false
	}
	return &fields[i], true
}

// optionNames are the fields that follow the template in the string form.
func optionNames() []string {
	var names []string
	for _, f := range fields {
		if f.isOption() {
			names = append(names, f.Name)
		}
	}
	return names
}

// either lists what one may choose from.
func either(choices []string) string {
	last := len(choices) - 1
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

func (f *Field) isOption() bool { return f.Name != fieldOperation && f.Name != fieldKey }

// unknownField says what is wrong with a name that no field has.
func unknownField(name string, known []string) string {
	return fmt.Sprintf("unknown field %.300q%s; known are %s", name, DidYouMean(name, known), strings.Join(known, ", "))
}

// Set sets the field of that name from its string form: "200ms", "1/3", "true".
// It checks how the value is written, [Rule.Compile] what it means. The error is
// a [Fault].
func (r *Rule) Set(field, value string) error {
	f, ok := fieldNamed(field)
	if !ok {
		return Fault{Reason: unknownField(field, names(fields))}
	}
	if value == "" && f.Kind != String {
		return Fault{Field: field, Reason: "has no value, add one or remove the field"}
	}
	if err := f.set(r, value); err != nil {
		return Fault{Field: field, Reason: err.Error()}
	}
	return nil
}

// Get returns the string form of a field, empty where it has its default, or no
// field has the name.
func (r *Rule) Get(field string) string {
	f, ok := fieldNamed(field)
	if !ok {
		return ""
	}
	return f.get(r)
}

func names(fields []Field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.Name
	}
	return all
}

func plain(name, doc string, at func(*Rule) *string) Field {
	return Field{
		Name: name, Kind: String, Doc: doc,
		set: func(r *Rule, value string) error { *at(r) = value; return nil },
		get: func(r *Rule) string {
			if name == fieldName && r.Name == r.Key {
				return "" // as by default
			}
			return *at(r)
		},
		check: func(r *Rule) string {
			if name == fieldKey || presentable(*at(r)) {
				return ""
			}
			return fmt.Sprintf("%.300q has a control byte or a space at its ends, remove it", *at(r))
		},
	}
}

// duration is a field that is 0 or between least and the longest that the engine
// knows. instead says what to write for one that is too short.
// A value other than 0 becomes the option of an acquisition.
func duration(
	name, doc string, at func(*Rule) *time.Duration, least time.Duration, instead string,
	option func(time.Duration) lock.Option,
) Field {
	return Field{
		Name: name, Kind: Duration, Doc: doc, Default: "0",
		set: func(r *Rule, value string) error {
			d, err := time.ParseDuration(value)
			if err != nil || d >= 0 && strings.ContainsAny(value, "+-") {
				return fmt.Errorf("%.300q is not a duration, write a number and its unit, such as \"200ms\" or \"5s\"", value)
			}
			if d == 0 && strings.ContainsAny(value, "123456789") {
				return fmt.Errorf("%.300q is less than 1ns, use %s", value, instead)
			}
			*at(r) = d
			return nil
		},
		get: written(at, time.Duration.String),
		check: func(r *Rule) string {
			switch d := *at(r); {
			case d < 0:
				return fmt.Sprintf("%v is negative, use %s", d, instead)
			case d > 0 && d < least:
				return fmt.Sprintf("%v is too short, use at least %v, or %s", d, least, instead)
			case d > lock.MaxDuration:
				return fmt.Sprintf("%v is too long, use at most %v", d, lock.MaxDuration)
			}
			return ""
		},
		option: applied(at, option),
	}
}

// written returns the get of a field whose default is the zero value.
func written[T comparable](at func(*Rule) *T, write func(T) string) func(*Rule) string {
	return func(r *Rule) string {
		var zero T
		if *at(r) == zero {
			return ""
		}
		return write(*at(r))
	}
}

// applied returns the option of a field, which has none if it is zero.
func applied[T comparable](at func(*Rule) *T, option func(T) lock.Option) func(*Rule) lock.Option {
	return func(r *Rule) lock.Option {
		var zero T
		if *at(r) == zero {
			return nil
		}
		return option(*at(r))
	}
}

// minHold is a duration that isn't longer than the lease and the longest hold.
func minHold() Field {
	f := duration("minHold", "How long the lock stays held at least, also if the work ends before, as in 50s: so a job runs once per tick, however "+
		"short it is. By default, and with 0, what the locker says.",
		func(r *Rule) *time.Duration { return &r.MinHold }, lock.MinLease, "0 for what the locker says", lock.WithMinHold)
	check := f.check
	f.check = func(r *Rule) string {
		switch reason := check(r); {
		case reason != "":
			return reason
		case r.Lease > 0 && r.Lease < r.MinHold:
			return fmt.Sprintf("%v is longer than the lease of %v, which ends the hold: make the lease longer, or leave it out", r.MinHold, r.Lease)
		case r.MaxHold > 0 && r.MaxHold < r.MinHold:
			return fmt.Sprintf("%v is longer than the maxHold of %v", r.MinHold, r.MaxHold)
		}
		return ""
	}
	return f
}

func count(name, doc string, at func(*Rule) *int, option func(int) lock.Option) Field {
	return Field{
		Name: name, Kind: Count, Doc: doc,
		set: func(r *Rule, value string) error {
			n, err := wholeNumber(value)
			if err == nil {
				*at(r) = n
			}
			return err
		},
		get: written(at, strconv.Itoa),
		check: func(r *Rule) string {
			if *at(r) < 0 {
				return fmt.Sprintf("%d is negative, use at least 1, or leave it out", *at(r))
			}
			return ""
		},
		option: applied(at, option),
	}
}

func wholeNumber(value string) (int, error) {
	n, err := strconv.Atoi(value)
	switch {
	case err != nil || strconv.Itoa(n) != value: // 010 is 8 in YAML 1.1
		return 0, fmt.Errorf("%.300q is not a whole number in decimal digits", value)
	case n < 1:
		return 0, fmt.Errorf("%d is too few, use at least 1", n)
	}
	return n, nil
}

func flag(name, doc string, at func(*Rule) *bool) Field {
	return Field{
		Name: name, Kind: Flag, Doc: doc, Default: "false",
		set: func(r *Rule, value string) error {
			if value != "true" && value != "false" {
				return fmt.Errorf("%.300q is not true or false", value)
			}
			*at(r) = value == "true"
			return nil
		},
		get:   written(at, strconv.FormatBool),
		check: func(*Rule) string { return "" },
	}
}

// choice is a field whose default is the zero value, the first of values.
func choice[T interface {
	comparable
	fmt.Stringer
	Valid() bool
}](name, doc string, at func(*Rule) *T, parse func(string) (T, error), values ...T) Field {
	choices := make([]string, len(values))
	for i, v := range values {
		choices[i] = v.String()
	}
	use := either(choices)
	return Field{
		Name: name, Kind: Choice, Doc: doc, Default: choices[0], Choices: choices,
		set: func(r *Rule, value string) error {
			v, err := parse(value)
			if err != nil {
				return fmt.Errorf("unknown %.300q%s; use %s", value, DidYouMean(value, choices), use)
			}
			*at(r) = v
			return nil
		},
		get: written(at, T.String),
		check: func(r *Rule) string {
			if !(*at(r)).Valid() {
				return fmt.Sprintf("unknown %v, use %s", *at(r), use)
			}
			return ""
		},
	}
}

// permits is the one field of two numbers. Without a slash nobody could tell
// which of the two is meant.
func permits() Field {
	return Field{
		Name: fieldPermits, Kind: Permits,
		Doc: "How many permits of the semaphore the operation takes, of how many there are, as in 1/3. Every rule of the " +
			"same key must name the same number of permits. Only for mode semaphore, which needs it.",
		set: func(r *Rule, value string) error {
			taken, of, ok := strings.Cut(value, "/")
			n, err := wholeNumber(taken)
			size, sizeErr := wholeNumber(of)
			if !ok || cmp.Or(err, sizeErr) != nil {
				return fmt.Errorf("%.300q does not say how many permits of how many, write it as 1/3", value)
			}
			r.Permits, r.Size = n, size
			return nil
		},
		get: func(r *Rule) string {
			if r.Permits == 0 && r.Size == 0 {
				return ""
			}
			return fmt.Sprintf("%d/%d", cmp.Or(r.Permits, 1), r.Size)
		},
		check: func(r *Rule) string {
			switch {
			case r.Mode != lock.Semaphore && (r.Size != 0 || r.Permits != 0):
				return "is for mode semaphore, remove it or set the mode"
			case r.Mode != lock.Semaphore:
				return ""
			case r.Size == 0:
				return "is missing, say how many permits of how many the operation takes, such as 1/3"
			case r.Permits < 1 || r.Permits > r.Size:
				return fmt.Sprintf("%d of %d cannot be taken, use 1 to %d", r.Permits, r.Size, max(r.Size, 1))
			case r.Size > lock.MaxPermits:
				return fmt.Sprintf("%d permits are too many, use at most %d", r.Size, lock.MaxPermits)
			}
			return ""
		},
		option: func(r *Rule) lock.Option {
			if r.Mode != lock.Semaphore {
				return nil
			}
			return lock.WithPermits(r.Permits, r.Size)
		},
	}
}

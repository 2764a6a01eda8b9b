package grafana_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// query is what the tests need to know of a PromQL expression. It is no parser
// of the whole language: it refuses what the dashboard and the alerts don't
// use, so that a slip of the pen is found.
type query struct {
	selectors []selector
	groups    []string // labels that by() keeps
}

type selector struct {
	metric   string
	matchers []matcher
	ranged   bool
}

type matcher struct{ label, op, value string }

var (
	token = regexp.MustCompile(`^(?:[a-zA-Z_][a-zA-Z0-9_]*|"[^"\n]*"|[0-9]+(?:\.[0-9]+)?[smhd]?|=~|!~|!=|>=|<=|==|[-+*/><=(){}\[\],])`)
	ident = regexp.MustCompile(`^[a-zA-Z_]`)
	span  = regexp.MustCompile(`^[0-9]+[smhd]$`)

	counter = regexp.MustCompile(`_total$|_seconds_(?:bucket|sum|count)$`)

	overRanges = []string{"rate", "increase", "deriv"}
	functions  = append([]string{"sum", "count", "histogram_quantile"}, overRanges...)
	joins      = []string{"and", "or", "unless"}
	// scraped are labels that Prometheus itself adds.
	scraped = []string{"job", "instance"}
)

// reader goes through the tokens of an expression.
type reader struct {
	tokens []string
	at     int
	query  query
}

func read(text string) (q query, err error) {
	r := &reader{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		next := token.FindString(rest)
		if next == "" {
			return q, fmt.Errorf("cannot read %q", rest)
		}
		r.tokens, rest = append(r.tokens, next), rest[len(next):]
	}
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v, at token %d of %q", fault, r.at, r.tokens)
		}
	}()
	r.expression()
	if r.peek() != "" {
		panic("too much")
	}
	return r.query, nil
}

func (r *reader) peek() string {
	if r.at == len(r.tokens) {
		return ""
	}
	return r.tokens[r.at]
}

func (r *reader) next() string {
	text := r.peek()
	if text == "" {
		panic("it ends too soon")
	}
	r.at++
	return text
}

func (r *reader) want(text string) {
	if got := r.next(); got != text {
		panic(fmt.Sprintf("%q instead of %q", got, text))
	}
}

// expression = term { operator term }
func (r *reader) expression() {
	r.term()
	for op := r.peek(); slices.Contains([]string{"+", "-", "*", "/", ">", "<", ">=", "<=", "=="}, op) || slices.Contains(joins, op); op = r.peek() {
		r.next()
		r.term()
	}
}

// term = number / "(" expression ")" / function / selector
func (r *reader) term() {
	text := r.next()
	switch {
	case text == "(":
		r.expression()
		r.want(")")
	case slices.Contains(functions, text):
		r.call(text)
	case ident.MatchString(text):
		r.selector(text)
	case text[0] >= '0' && text[0] <= '9' && !span.MatchString(text):
	default:
		panic(fmt.Sprintf("%q instead of a term", text))
	}
}

// call = name [ "by" "(" labels ")" ] "(" expression { "," expression } ")"
func (r *reader) call(name string) {
	if r.peek() == "by" {
		r.next()
		r.query.groups = append(r.query.groups, r.labels()...)
	}
	r.want("(")
	before := len(r.query.selectors)
	r.expression()
	for r.peek() == "," {
		r.next()
		r.expression()
	}
	r.want(")")
	if slices.Contains(overRanges, name) && !r.query.selectors[before].ranged {
		panic(name + " of something without a range")
	}
}

func (r *reader) labels() (all []string) {
	r.want("(")
	for {
		all = append(all, r.next())
		if r.peek() != "," {
			r.want(")")
			return all
		}
		r.next()
	}
}

// selector = metric [ "{" matchers "}" ] [ "[" duration "]" ] [ "offset" duration ]
func (r *reader) selector(metric string) {
	s := selector{metric: metric}
	if r.peek() == "{" {
		r.next()
		for r.peek() != "}" {
			m := matcher{label: r.next(), op: r.next(), value: strings.Trim(r.next(), `"`)}
			if !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.op) {
				panic(m.op + " is no matcher")
			}
			s.matchers = append(s.matchers, m)
			if r.peek() == "," {
				r.next()
			}
		}
		r.want("}")
	}
	if r.peek() == "[" {
		r.next()
		r.duration()
		r.want("]")
		s.ranged = true
	}
	if r.peek() == "offset" {
		r.next()
		r.duration()
	}
	r.query.selectors = append(r.query.selectors, s)
}

func (r *reader) duration() {
	if text := r.next(); !span.MatchString(text) {
		panic(fmt.Sprintf("%q instead of a duration", text))
	}
}

// selects says whether a series is among those of the selector, wherever it was
// scraped.
func (s selector) selects(one series) bool {
	if one.name != s.metric {
		return false
	}
	for _, m := range s.matchers {
		if slices.Contains(scraped, m.label) {
			continue
		}
		value, equal := one.labels[m.label], false
		if strings.HasSuffix(m.op, "~") {
			equal = regexp.MustCompile("^(?:" + m.value + ")$").MatchString(value)
		} else {
			equal = value == m.value
		}
		if equal == strings.HasPrefix(m.op, "!") {
			return false
		}
	}
	return true
}

// faults says what is wrong with a query over what is exported, and with strings
// that name its labels.
func faults(all []series, text string, named ...string) (wrong []string) {
	q, err := read(text)
	if err != nil {
		return []string{err.Error()}
	}
	if len(q.selectors) == 0 {
		return []string{"it asks for nothing"}
	}
	known := slices.Clone(scraped)
	for _, s := range q.selectors {
		if !slices.ContainsFunc(all, s.selects) {
			wrong = append(wrong, fmt.Sprintf("no such series is exported: %+v", s))
		}
		if counter.MatchString(s.metric) && !s.ranged && !strings.Contains(text, "unless") {
			wrong = append(wrong, s.metric+" is a counter: it needs a rate")
		}
		for _, one := range all {
			if one.name != s.metric {
				continue
			}
			for label := range one.labels {
				known = append(known, label)
			}
		}
	}
	for _, label := range q.groups {
		if !slices.Contains(known, label) {
			wrong = append(wrong, "no such label: "+label)
		}
	}
	if strings.Contains(text, "histogram_quantile") && !slices.Contains(q.groups, "le") {
		wrong = append(wrong, "a quantile needs le")
	}
	for _, label := range named {
		if !slices.Contains(q.groups, label) {
			wrong = append(wrong, "the query does not keep the label "+label)
		}
	}
	return wrong
}

func TestTheQueryReaderCatchesPlantedFaults(t *testing.T) {
	all := exported(t)
	for text, want := range map[string]string{
		`sum by (redlatch_template) (rate(redlatch_losses_total{redlatch_reason="expired"}[5m])) > 0`:            "",
		`histogram_quantile(0.99, sum by (le) (rate(redlatch_hold_duration_seconds_bucket[5m])))`:                "",
		`sum(redlatch_held_count) / sum(redlatch_waiter_count) or sum(redlatch_held_count)`:                      "",
		`sum(rate(redlatch_losses_total[5m])`:                                                                    "too soon",
		`sum(rate(redlatch_losses_total[5m])))`:                                                                  "too much",
		`sum(rate(redlatch_losses_total[5x]))`:                                                                   `"5"`,
		`sum(rate(redlatch_losses_total))`:                                                                       "without a range",
		`sum(ratio(redlatch_losses_total[5m]))`:                                                                  "instead of",
		`sum(redlatch_losses_total)`:                                                                             "needs a rate",
		`sum(rate(redlatch_losses[5m]))`:                                                                         "no such series",
		`sum(rate(redlatch_losses_total{redlatch_reason="lost"}[5m]))`:                                           "no such series",
		`sum(rate(redlatch_losses_total{reason="expired"}[5m]))`:                                                 "no such series",
		`sum(rate(redlatch_losses_total{redlatch_reason!~".*"}[5m]))`:                                            "no such series",
		`sum(rate(redlatch_losses_total{redlatch_reason>"expired"}[5m]))`:                                        "no matcher",
		`sum by (template) (rate(redlatch_losses_total[5m]))`:                                                    "no such label",
		`histogram_quantile(0.99, sum by (redlatch_template) (rate(redlatch_hold_duration_seconds_bucket[5m])))`: "needs le",
		`sum(rate(redlatch_losses_total[5m])) % 2`:                                                               "cannot read",
		`1 > 0`: "asks for nothing",
	} {
		got := strings.Join(faults(all, text), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := faults(all, `sum by (job) (redlatch_held_count)`, "redlatch_template"); len(got) != 1 {
		t.Errorf("a label that the query drops: %q", got)
	}
}

package rule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/core/key"
)

// ParseRule reads a rule in its string form, the template of the key and then
// fields, one space or more apart:
//
//	lock:order:<userId> wait=200ms mode=semaphore permits=1/3 maxWaiters=50
//
// The names of the fields and their values are those of rule files; operation is
// not among them. A value with spaces is in double quotes, as a Go string is:
// name="one order each". [Rule.String] is the inverse.
//
// The error is [Faults], with everything that is wrong and its column.
func ParseRule(s string) (Rule, error) {
	parsed, faults := ParseWith(s, nil)
	if err := faults.err(); err != nil {
		return Rule{}, err
	}
	return parsed.Rule, nil
}

// Parsed is a rule that was read from a string.
type Parsed struct {
	Rule     Rule
	Template *key.Template // of Rule.Key
	// TemplateColumn is where the template began in the string, from 1.
	TemplateColumn int
	// Given has the column of the value of every field that the string sets.
	Given map[string]int
}

// ParseWith is [ParseRule] for integrations that extend the grammar of templates.
// rewrite, if not nil, turns the template of the string into one that [key.Parse]
// knows, and returns how a column of the new one maps to one of the old. With faults the
// rest of the rule is there, and Template is nil if it is wrong.
func ParseWith(s string, rewrite func(template string) (canonical string, original func(column int) int)) (*Parsed, Faults) {
	r := ruleReader{source: s, parsed: Parsed{Given: make(map[string]int)}}
	words := split(s)
	switch {
	case len(words) == 0:
		r.fault(len(s)+1, fieldKey, `the template is missing, add one such as "lock:order:<userId>"`)
		return &r.parsed, r.faults
	case strings.HasPrefix(words[0].text, fieldKey+"="):
		r.fault(words[0].column, fieldKey, "the template stands without a name, leave out %q", fieldKey+"=")
		words = words[1:]
	case r.isField(words[0].text):
		r.fault(words[0].column, fieldKey, "the template comes first, and fields such as %.100q behind it", words[0].text)
	default:
		r.template(words[0], rewrite)
		words = words[1:]
	}
	for _, w := range words {
		r.field(w)
	}
	r.check()
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int { return a.Column - b.Column })
		return &r.parsed, r.faults
	}
	return &r.parsed, nil
}

// word is a part of a string between spaces.
type word struct {
	text   string
	column int
}

// split cuts s at spaces that aren't within quotes.
func split(s string) []word {
	var words []word
	for start := 0; start < len(s); {
		if isSpace(s[start]) {
			start++
			continue
		}
		end, quoted := start, false
		for end < len(s) && (quoted || !isSpace(s[end])) {
			switch {
			case s[end] == '"':
				quoted = !quoted
			case s[end] == '\\' && quoted && end+1 < len(s):
				end++
			}
			end++
		}
		words = append(words, word{s[start:end], start + 1})
		start = end
	}
	return words
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

type ruleReader struct {
	source   string
	parsed   Parsed
	original func(column int) int // of the template
	faults   Faults
}

func (r *ruleReader) fault(column int, field, format string, args ...any) {
	r.faults = append(r.faults, Fault{
		Source: strconv.Quote(clip(r.source)), Column: column, Field: field, Reason: fmt.Sprintf(format, args...),
	})
}

// isField reports whether a word is a field instead of a template.
func (r *ruleReader) isField(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	_, known := fieldNamed(name)
	return ok && known
}

func (r *ruleReader) template(w word, rewrite func(string) (string, func(int) int)) {
	r.parsed.TemplateColumn = w.column
	r.parsed.Rule.Key, r.original = w.text, func(column int) int { return column }
	if rewrite != nil {
		r.parsed.Rule.Key, r.original = rewrite(w.text)
	}
	template, err := key.Parse(r.parsed.Rule.Key)
	var syntax *key.SyntaxError
	if errors.As(err, &syntax) {
		for _, fault := range syntax.All() {
			r.fault(w.column+r.original(fault.Column)-1, fieldKey, "%s", fault.Reason)
		}
		return
	}
	r.parsed.Template = template
}

func (r *ruleReader) field(w word) {
	name, value, ok := strings.Cut(w.text, "=")
	f, known := fieldNamed(name)
	at := w.column + len(name) + 1
	switch {
	case !ok:
		r.fault(w.column, "", "%.100q is not a field, write name=value; known are %s", w.text, strings.Join(optionNames(), ", "))
		return
	case name == "":
		r.fault(w.column, "", "no space stands around =, write name=value")
		return
	case !known || !f.isOption():
		r.fault(w.column, "", "%s", unknownField(name, optionNames()))
		return
	case r.parsed.Given[name] != 0:
		r.fault(w.column, name, "is there twice, keep one")
		return
	}
	r.parsed.Given[name] = at
	if strings.HasPrefix(value, `"`) {
		unquoted, err := strconv.Unquote(value)
		if err != nil {
			r.fault(at, name, "%.100q is not a string in quotes", value)
			return
		}
		value = unquoted
	}
	if value == "" {
		r.fault(at, name, "has no value, add one or remove the field")
		return
	}
	var wrong Fault
	if err := r.parsed.Rule.Set(name, value); errors.As(err, &wrong) {
		r.fault(at, name, "%s", wrong.Reason)
	}
}

// check adds what is wrong with the rule as a whole.
func (r *ruleReader) check() {
	broken := make(map[string]bool)
	for _, f := range r.faults {
		broken[f.Field] = true
	}
	c := r.parsed.Rule
	_, problems := c.compile()
	for _, p := range problems {
		if broken[p.field] || p.field == fieldPermits && broken[fieldMode] {
			continue // it follows from what is wrong already
		}
		column := r.parsed.TemplateColumn
		switch at := r.parsed.Given[p.field]; {
		case p.field == fieldKey && p.column > 0 && r.original != nil:
			column += r.original(p.column) - 1
			p.reason = strings.TrimPrefix(p.reason, fmt.Sprintf("%.300q, column %d: ", c.Key, p.column)) // the fault has the place
		case at != 0:
			column = at
		case p.field == fieldPermits && r.parsed.Given[fieldMode] != 0:
			column = r.parsed.Given[fieldMode] // the mode needs what is missing
		}
		r.fault(column, p.field, "%s", p.reason)
	}
}

// String writes the rule as [ParseRule] reads it: the template and the fields that
// aren't as they are by default. The operation isn't part of it.
func (r Rule) String() string {
	words := []string{r.Key}
	for i := range fields {
		f := &fields[i]
		value := f.get(&r)
		if !f.isOption() || value == "" {
			continue
		}
		if strings.ContainsFunc(value, func(c rune) bool { return c == '"' || c == '\\' || c <= ' ' }) {
			value = strconv.Quote(value)
		}
		words = append(words, f.Name+"="+value)
	}
	return strings.Join(words, " ")
}

package rulefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/redlatch/redlatch/core/rule"
)

const (
	rulesField    = "rules"
	unlockedField = "unlocked"
	schemaField   = "$schema" // where editors of JSON look for the schema

	// maxFaults is how many faults are listed. A file with more is probably some other
	// file, and reading it stops.
	maxFaults = 500
)

// Parse reads a set of rules from YAML, or JSON, which is a part of it but for escapes
// that make one character of two ("\ud83d\ude00"): one document with a list named
// rules, whose items have the fields of [rule.Fields]. Counts are numbers, flags are
// true or false, all others are strings. Only operation and key are required. Besides
// rules there may be a list of operations named unlocked, see [rule.Set.Unlocked], and
// a string named $schema, for editors; [rule.Schema] is what it names.
//
// The error is [rule.Faults]. Input that isn't YAML has one fault, where reading
// stopped; otherwise every fault is listed, up to 500: unknown and repeated fields, values
// of a wrong type, templates that overlap, and all that [rule.NewSet] finds. Anchors,
// aliases, merge keys and tags are faults, too: each rule says by itself what it
// does. So are more than [MaxFile] bytes.
func Parse(data []byte) (*rule.Set, error) { return ParseFile("", data) }

// ParseFile is [Parse] for the content of a file, which the faults name. The file itself
// isn't read.
func ParseFile(path string, data []byte) (*rule.Set, error) {
	d := decoder{source: path}
	if len(data) > MaxFile {
		d.fault(place{}, "", "is larger than %d bytes", MaxFile)
		return nil, d.faults
	}
	d.document(data)
	set, faults := rule.Build(d.entries, d.unlocked...)
	d.locate(faults)
	faults = append(d.faults, faults...)
	slices.SortStableFunc(faults, byPlace)
	if more := len(faults) - maxFaults; more > 1 {
		at := faults[maxFaults]
		faults = append(faults[:maxFaults], rule.Fault{
			Source: path, Line: at.Line, Column: at.Column, Reason: fmt.Sprintf("is the first of %d more faults, which are not listed", more),
		})
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return set, nil
}

func byPlace(a, b rule.Fault) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return a.Column - b.Column
}

// decoder walks the syntax tree, because decoding into a struct stops at the first
// fault and loses the places.
type decoder struct {
	source     string
	entries    []rule.Entry
	unlocked   []string
	unlockedAt []place
	faults     rule.Faults
	lines      [][]rune
}

type place struct{ line, column int }

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

func (d *decoder) fault(at place, field, format string, args ...any) {
	if last := len(d.lines); at.line > last && last > 0 { // where more was expected
		at = place{last, len(d.lines[last-1]) + 1}
	}
	d.faults = append(d.faults, rule.Fault{
		Source: d.source, Line: at.line, Column: at.column, Field: field, Reason: fmt.Sprintf(format, args...),
	})
}

func (d *decoder) document(data []byte) {
	body, ok := d.parse(data)
	switch {
	case !ok:
	case body == nil || isEmpty(body):
		d.fault(place{1, 1}, "", "there are no rules, start with \"rules:\"")
	default:
		d.root(body)
	}
}

// parse returns the body of the document, if data is YAML.
func (d *decoder) parse(data []byte) (*yaml.Node, bool) {
	if at, ok := invalidUTF8(data); ok {
		d.fault(at, "", "is not UTF-8")
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if json.Valid(data) { // then no tab is part of a value, and YAML allows fewer of them
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	for line := range strings.SplitSeq(lineEnds.Replace(string(data)), "\n") {
		d.lines = append(d.lines, []rune(line))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		return nil, d.notYAML(err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		d.fault(bodyPlace(&second), "", "a second document is not read, put all rules into one list")
	case !errors.Is(err, io.EOF):
		return nil, d.notYAML(err)
	}
	if len(first.Content) == 0 {
		return nil, true
	}
	return first.Content[0], true
}

// notYAML reports why data couldn't be parsed. It returns true for a file without
// a document, which is no error of syntax.
func (d *decoder) notYAML(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	at, reason := place{1, 1}, err.Error()
	var syntax *yaml.LoadError
	if errors.As(err, &syntax) {
		at, reason = place{max(syntax.Mark.Line, 1), max(syntax.Mark.Column, 1)}, syntax.Message
	}
	d.fault(at, "", "is not YAML: %.300s%s", reason, cures[reason])
	return false
}

// cures maps messages of the parser for frequent mistakes to what to do about them.
var cures = map[string]string{
	"found character that cannot start any token":    "; indent by spaces, not tabs, and put a value that begins with a special character in quotes",
	"mapping values are not allowed in this context": `; put a value that has ": " in it in quotes`,
}

func bodyPlace(document *yaml.Node) place {
	if len(document.Content) > 0 {
		return placeOf(document.Content[0])
	}
	return placeOf(document)
}

func invalidUTF8(data []byte) (place, bool) {
	at := place{line: 1, column: 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return at, true
		}
		at.column++
		if r == '\n' {
			at = place{line: at.line + 1, column: 1}
		}
		data = data[size:]
	}
	return at, false
}

func (d *decoder) root(body *yaml.Node) {
	if kind(body) != mapping {
		cure := ""
		if kind(body) == list {
			cure = ": write rules: in a line in front of it"
		}
		d.fault(placeOf(body), "", "is %s, not a mapping with the field \"rules\"%s", kind(body), cure)
		return
	}
	found, misplaced := make(map[string]bool, 2), false
	for i := 0; i+1 < len(body.Content); i += 2 {
		name, value := d.name(body.Content[i]), body.Content[i+1]
		at := placeOf(body.Content[i])
		twice := found[name]
		found[name] = true
		switch {
		case name != rulesField && name != schemaField && name != unlockedField:
			meant := rule.DidYouMean(name, []string{rulesField, unlockedField})
			if slices.ContainsFunc(rule.Fields(), func(f rule.Field) bool { return f.Name == name }) {
				meant = ", which belongs to a rule: begin a list below rules: with \"- \" in front of the first field of each rule"
			}
			misplaced = misplaced || meant != "" // it says where the rules should be
			d.fault(at, "", "unknown field %.300q%s; known are rules, unlocked and $schema", name, meant)
		case twice:
			d.fault(at, "", "field %q is there twice, keep one, with all rules in one list", name)
		case name == schemaField:
			if kind(value) != str {
				d.fault(d.at(value, at), schemaField, "is %s, not a string", kind(value))
			}
		case name == unlockedField:
			d.operations(value, at)
		default:
			d.list(value, at)
		}
	}
	if !found[rulesField] && !misplaced {
		d.fault(placeOf(body), "", "field \"rules\" is missing")
	}
}

// name is the name of a field.
func (d *decoder) name(node *yaml.Node) string {
	if k := kind(node); k == other {
		d.fault(placeOf(node), "", "a name is %s, write the name itself", k)
	}
	return node.Value
}

// at is the place of a value, or that of its name where no value is written.
func (d *decoder) at(value *yaml.Node, name place) place {
	if isEmpty(value) && value.Value == "" {
		return name
	}
	return placeOf(value)
}

func (d *decoder) operations(node *yaml.Node, name place) {
	if kind(node) != list {
		d.fault(d.at(node, name), unlockedField, "is %s, not a list of operations", kind(node))
		return
	}
	for _, item := range node.Content {
		if kind(item) != str {
			d.fault(placeOf(item), unlockedField, "is %s, not an operation", kind(item))
			continue
		}
		d.unlocked, d.unlockedAt = append(d.unlocked, item.Value), append(d.unlockedAt, placeOf(item))
	}
}

// locate adds their places to faults of unlocked operations, which are in the order of
// the list.
func (d *decoder) locate(faults rule.Faults) {
	next := 0
	for i, fault := range faults {
		if fault.Field != unlockedField {
			continue
		}
		if n := slices.Index(d.unlocked[next:], fault.Operation); n >= 0 {
			at := d.unlockedAt[next+n]
			faults[i].Source, faults[i].Line, faults[i].Column = d.source, at.line, at.column
			next += n + 1
		}
	}
}

// list reads the rules. name is the place of the list's name.
func (d *decoder) list(node *yaml.Node, name place) {
	if kind(node) != list {
		d.fault(d.at(node, name), "", "rules is %s, not a list of rules: write \"- \" in front of the first field of each rule", kind(node))
		return
	}
	for _, item := range node.Content {
		if len(d.faults) >= maxFaults {
			d.fault(placeOf(item), "", "is not read, there are %d faults before", len(d.faults))
			return
		}
		if kind(item) != mapping {
			d.fault(placeOf(item), "", "is %s, not a rule with the fields operation and key", kind(item))
			continue
		}
		d.rule(item)
	}
}

func (d *decoder) rule(node *yaml.Node) {
	e := rule.Entry{
		Source: d.source, Line: node.Line, Column: node.Column,
		Fields: make(map[string]rule.Place, len(node.Content)/2),
		Broken: make(map[string]bool),
	}
	before := len(d.faults)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := d.name(node.Content[i]), node.Content[i+1]
		nameAt := placeOf(node.Content[i])
		if _, twice := e.Fields[name]; twice {
			d.fault(nameAt, name, "is there twice, keep one")
			continue
		}
		at := d.at(value, nameAt)
		e.Fields[name] = rule.Place{Line: at.line, Column: at.column, ValueColumn: d.valueColumn(value)}
		var wrong rule.Fault
		if err := assign(&e.Rule, name, value); errors.As(err, &wrong) {
			e.Broken[name] = true
			if wrong.Field == "" { // nobody knows the field, however often it is there
				delete(e.Fields, name)
				at = nameAt
			}
			d.fault(at, wrong.Field, "%s", wrong.Reason)
		}
	}
	for i := range d.faults[before:] {
		d.faults[before+i].Operation = e.Rule.Operation
	}
	d.entries = append(d.entries, e)
}

// assign sets a field to the value of a node.
func assign(r *rule.Rule, name string, node *yaml.Node) error {
	switch k := kind(node); k {
	case number:
		return r.Assign(name, json.Number(node.Value))
	case boolean:
		return r.Assign(name, strings.EqualFold(node.Value, "true")) // True and TRUE are YAML, too
	case empty:
		return r.Assign(name, nil)
	case str:
		return r.Assign(name, node.Value)
	case mapping:
		return r.Assign(name, map[string]any{})
	case list:
		return r.Assign(name, []any{})
	default:
		var wrong rule.Fault
		if err := new(rule.Rule).Assign(name, nil); errors.As(err, &wrong) && wrong.Field == "" {
			return wrong // nobody knows the field
		}
		return rule.Fault{Field: name, Reason: fmt.Sprintf("is %s, write the value itself", k)}
	}
}

// valueColumn is where the value of n begins if it is written out in one line, so
// that a column in the value is a column in the file; otherwise it is 0.
func (d *decoder) valueColumn(n *yaml.Node) int {
	if kind(n) != str || n.Line < 1 || n.Line > len(d.lines) {
		return 0
	}
	written, value, column := d.lines[n.Line-1], []rune(n.Value), n.Column
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		column++
	}
	if end := column - 1 + len(value); end > len(written) || !slices.Equal(written[column-1:end], value) {
		return 0
	}
	return column
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// valueKind is what a value is, in words for people.
type valueKind string

const (
	mapping valueKind = "a mapping"
	list    valueKind = "a list"
	empty   valueKind = "empty"
	str     valueKind = "a string"
	boolean valueKind = "true or false"
	number  valueKind = "a number"
	other   valueKind = "an anchor, an alias or a tag (which rules do not have)"
)

func isEmpty(n *yaml.Node) bool { return kind(n) == empty }

func kind(n *yaml.Node) valueKind {
	// The tag "!" has no name, and no TaggedStyle either.
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		return other
	case n.Kind == yaml.MappingNode:
		return mapping
	case n.Kind == yaml.SequenceNode:
		return list
	}
	switch n.ShortTag() {
	case "!!null":
		return empty
	case "!!bool":
		return boolean
	case "!!int", "!!float":
		return number
	}
	return str
}

package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/redlatch/redlatch/core/lock"
)

const (
	rulesField  = "rules"
	schemaField = "$schema" // where editors of JSON look for [Schema]

	knownFields = "operation, key, mode, permits, size, wait, maxWaiters, lease, maxHold, onBusy, name, overlaps"
)

// Parse reads a set of rules from YAML, or JSON, which is a part of it: one
// document with a list named rules, whose items have the fields operation, key,
// mode, permits, size, wait, maxWaiters, lease, maxHold, onBusy, name and overlaps.
// Permits, size and maxWaiters are numbers, overlaps is true or false, all others are text, the times as
// [time.ParseDuration] reads them, without a sign. Only operation and key are
// required. Beside rules there may be a text named $schema, for editors; [Schema]
// is what it names.
//
// The error is [Faults]. Text that is not YAML has one fault, where reading stopped;
// otherwise every fault is listed: unknown and repeated fields, values of a wrong
// type, templates that overlap, and all that [NewSet] finds. Anchors, aliases, merge
// keys and tags are faults, too: each rule says by itself what it does.
//
// Parse is for configuration, which is trusted: time and memory grow with the
// square of the depth to which data is nested, and nothing limits that depth.
func Parse(data []byte) (*Set, error) {
	var d decoder
	d.document(data)
	set, faults := build(d.entries)
	faults = append(faults, unmeant(d.entries, set.rules)...)
	faults = append(faults, d.faults...)
	faults.keepInside(data)
	faults.sortByPlace()
	if err := faults.err(); err != nil {
		return nil, err
	}
	return set, nil
}

// decoder walks the syntax tree itself, for a decoder into a struct stops at the
// first fault and knows no places afterwards.
type decoder struct {
	entries []entry
	faults  Faults
}

func (d *decoder) document(data []byte) {
	file, ok := d.parse(data)
	if !ok {
		return
	}
	var body ast.Node
	if len(file.Docs) > 0 {
		body = file.Docs[0].Body
	}
	if body == nil {
		d.fault(position{line: 1, column: 1}, "", "there are no rules, start with \"rules:\"")
		return
	}
	if len(file.Docs) > 1 {
		d.fault(place(file.Docs[1].Body, position{line: 1, column: 1}), "", "a second document is not read, put all rules into one list")
	}
	d.root(body)
}

// parse returns the syntax tree of data, if it is YAML.
func (d *decoder) parse(data []byte) (*ast.File, bool) {
	if at, ok := invalidUTF8(data); ok {
		d.fault(at, "", "is not UTF-8")
		return nil, false
	}
	file, err := parser.ParseBytes(countable(data), 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, true
	}
	at, reason := position{line: 1, column: 1}, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		reason = syntax.GetMessage()
		if tk := syntax.GetToken(); tk != nil && tk.Position != nil {
			at = positionOf(tk)
		}
	}
	d.fault(at, "", "is not YAML: %s", reason)
	return nil, false
}

// countable takes out what the parser miscounts lines and columns at, without
// moving anything to another place.
func countable(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if json.Valid(data) { // then no tab is part of a value
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	return data
}

func invalidUTF8(data []byte) (position, bool) {
	at := position{line: 1, column: 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return at, true
		}
		at.column++
		if r == '\n' {
			at = position{line: at.line + 1, column: 1}
		}
		data = data[size:]
	}
	return at, false
}

func (d *decoder) root(body ast.Node) {
	mapping, ok := body.(*ast.MappingNode)
	if !ok {
		d.fault(place(body, position{}), "", "is %s, not a mapping with the field \"rules\"", kind(body))
		return
	}
	found := make(map[string]bool, 2)
	for _, pair := range mapping.Values {
		name, at := nameOf(pair), place(pair.Key, position{})
		twice := found[name]
		found[name] = true
		switch {
		case name != rulesField && name != schemaField:
			d.fault(at, "", "unknown field %.300q, known are rules and $schema", name)
		case twice:
			d.fault(at, "", "field %q is there twice, keep one, with all rules in one list", name)
		case name == schemaField:
			d.schema(pair.Value, at)
		default:
			d.list(pair.Value, at)
		}
	}
	if !found[rulesField] {
		d.fault(place(body, position{}), "", "field \"rules\" is missing")
	}
}

// schema looks at the name of the schema, which is nobody's but the editor's. at is
// the place of the field.
func (d *decoder) schema(node ast.Node, at position) {
	var text string
	if reason := setText(&text, node); reason != "" {
		d.fault(place(node, at), schemaField, "%s", reason)
	}
}

// list reads the rules. at is the place of the list's name.
func (d *decoder) list(node ast.Node, at position) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		d.fault(place(node, at), "", "rules is %s, not a list of rules", kind(node))
		return
	}
	for _, item := range sequence.Values {
		mapping, ok := item.(*ast.MappingNode)
		if !ok {
			d.fault(place(item, position{}), "", "is %s, not a rule with the fields operation and key", kind(item))
			continue
		}
		d.rule(mapping)
	}
}

func (d *decoder) rule(mapping *ast.MappingNode) {
	e := entry{
		start:  place(mapping, position{}),
		fields: make(map[string]position, len(mapping.Values)),
		broken: make(map[string]bool),
	}
	var faults []Fault
	report := func(at position, field, format string, args ...any) {
		faults = append(faults, Fault{Line: at.line, Column: at.column, Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	for _, pair := range mapping.Values {
		name, at := nameOf(pair), place(pair.Key, e.start)
		if _, twice := e.fields[name]; twice {
			report(at, name, "is there twice, keep one")
			continue
		}
		set, known := setters[name]
		if !known {
			report(at, "", "unknown field %.300q, known are %s", name, knownFields)
			continue
		}
		at = place(pair.Value, at)
		e.fields[name] = at
		if reason := set(&e.rule, pair.Value); reason != "" {
			e.broken[name] = true
			report(at, name, "%s", reason)
		}
	}
	for i := range faults {
		faults[i].Operation = e.rule.Operation
	}
	d.faults = append(d.faults, faults...)
	d.entries = append(d.entries, e)
}

// setters read one field into a rule and say what is wrong with its value, if anything.
var setters = map[string]func(*Rule, ast.Node) string{
	fieldOperation:  func(r *Rule, n ast.Node) string { return setText(&r.Operation, n) },
	fieldKey:        func(r *Rule, n ast.Node) string { return setText(&r.Key, n) },
	fieldName:       func(r *Rule, n ast.Node) string { return setText(&r.Name, n) },
	fieldPermits:    func(r *Rule, n ast.Node) string { return setNumber(&r.Permits, n) },
	fieldSize:       func(r *Rule, n ast.Node) string { return setNumber(&r.Size, n) },
	fieldMaxWaiters: func(r *Rule, n ast.Node) string { return setNumber(&r.MaxWaiters, n) },
	fieldMaxHold:    func(r *Rule, n ast.Node) string { return setDuration(&r.MaxHold, n) },
	fieldWait:       func(r *Rule, n ast.Node) string { return setDuration(&r.Wait, n) },
	fieldLease:      func(r *Rule, n ast.Node) string { return setDuration(&r.Lease, n) },
	fieldMode: func(r *Rule, n ast.Node) string {
		return setNamed(&r.Mode, n, lock.ParseMode, "exclusive, fair, read, write or semaphore")
	},
	fieldOnBusy: func(r *Rule, n ast.Node) string {
		return setNamed(&r.OnBusy, n, ParseOnBusy, "reject or skip")
	},
	fieldOverlaps: func(r *Rule, n ast.Node) string { return setBool(&r.Overlaps, n) },
}

func setText(to *string, node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		*to = n.Value
		return ""
	case *ast.LiteralNode:
		*to = n.Value.Value
		return ""
	case *ast.NullNode:
		return "has no value, add one or remove the field"
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return fmt.Sprintf("is %s, not text, put it in quotes", kind(node))
	}
	return fmt.Sprintf("is %s, not text", kind(node))
}

func setDuration(to *time.Duration, node ast.Node) string {
	var text string
	if n, ok := node.(*ast.IntegerNode); ok {
		text = n.Token.Value // 0 is a duration, other numbers lack their unit
	} else if reason := setText(&text, node); reason != "" {
		return reason
	}
	d, err := time.ParseDuration(text)
	if err != nil || d >= 0 && strings.ContainsAny(text, "+-") {
		return fmt.Sprintf("%.300q is not a duration, write a number and its unit, such as \"200ms\" or \"5s\"", text)
	}
	*to = d
	return ""
}

func setNumber(to *int, node ast.Node) string {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return fmt.Sprintf("is %s, not a whole number", kind(node))
	}
	value, err := strconv.Atoi(n.Token.Value)
	if err != nil {
		return fmt.Sprintf("%.300q is not a number in decimal digits", n.Token.Value)
	}
	if value < 1 {
		return fmt.Sprintf("%d is too few, use at least 1", value)
	}
	*to = value
	return ""
}

func setBool(to *bool, node ast.Node) string {
	n, ok := node.(*ast.BoolNode)
	if !ok {
		return fmt.Sprintf("is %s, not true or false", kind(node))
	}
	*to = n.Value
	return ""
}

func setNamed[T any](to *T, node ast.Node, parse func(string) (T, error), names string) string {
	var text string
	if reason := setText(&text, node); reason != "" {
		return reason
	}
	value, err := parse(text)
	if err != nil || text == "" {
		return fmt.Sprintf("unknown %.300q, use %s", text, names)
	}
	*to = value
	return ""
}

func (d *decoder) fault(at position, field, format string, args ...any) {
	d.faults = append(d.faults, Fault{Line: at.line, Column: at.column, Field: field, Reason: fmt.Sprintf(format, args...)})
}

// nameOf is the key of a pair. A key that is no plain text has a name that no field has.
func nameOf(pair *ast.MappingValueNode) string {
	if n, ok := pair.Key.(*ast.StringNode); ok {
		return n.Value
	}
	if tk := pair.Key.GetToken(); tk != nil {
		return tk.Value
	}
	return ""
}

// place is where node begins, or fallback where that is not known.
func place(node ast.Node, fallback position) position {
	if node == nil {
		return fallback
	}
	tk := node.GetToken()
	if mapping, ok := node.(*ast.MappingNode); ok && !mapping.IsFlowStyle && len(mapping.Values) > 0 {
		tk = mapping.Values[0].Key.GetToken() // its own token is the first colon
	}
	if tk == nil || tk.Position == nil {
		return fallback
	}
	if tk.Type == token.ImplicitNullType && fallback.line > 0 {
		return fallback // nothing is written there
	}
	at := positionOf(tk)
	if n, ok := node.(*ast.StringNode); ok {
		at.text = textColumn(at.column, n)
	}
	return at
}

// positionOf is where a token begins. The parser counts from 0 at places.
func positionOf(tk *token.Token) position {
	return position{line: max(tk.Position.Line, 1), column: max(tk.Position.Column, 1)}
}

// textColumn is where the text of n begins if it is written out in one line, so that
// a column in the text is a column in the file; otherwise it is 0.
func textColumn(column int, n *ast.StringNode) int {
	switch strings.TrimSpace(n.Token.Origin) {
	case n.Value:
		return column
	case `"` + n.Value + `"`, "'" + n.Value + "'":
		return column + 1
	}
	return 0
}

// kind names the type of a value for people.
func kind(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode, nil:
		return "empty"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "an anchor, an alias or a tag (which rules do not have)"
}

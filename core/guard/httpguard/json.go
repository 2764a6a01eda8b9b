package httpguard

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/core/key"
)

// maxInteger is the largest integer that every JSON parser reads as written
// (RFC 7493): a handler that decodes into any gets a float64.
const maxInteger = 1<<53 - 1

// jsonField finds the value at path in JSON.
//
// Names match exactly. But decoders into Go structs match them in any case, and
// let the last one win: {"userId":1,"USERID":2} would be locked as 1 and carried
// out as 2. So a second name that differs only in case is refused.
//
// It looks at each byte twice at most, once to validate and once to find.
func jsonField(text []byte, path []string) (string, error) {
	if !json.Valid(text) {
		return "", key.ErrInvalid
	}
	s := scanner{text: text}
	for _, name := range path {
		if err := s.enter(name); err != nil {
			return "", err
		}
	}
	return s.scalar()
}

// scanner walks over JSON that is known to be valid. It stands in front of a value.
type scanner struct {
	text []byte
	pos  int
}

func (s *scanner) space() {
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\t' || s.text[s.pos] == '\n' || s.text[s.pos] == '\r') {
		s.pos++
	}
}

// enter moves to the value of the only member of that name.
func (s *scanner) enter(name string) error {
	s.space()
	if s.text[s.pos] != '{' {
		return key.ErrInvalid
	}
	s.pos++
	found, seen := -1, false
	for s.space(); s.text[s.pos] != '}'; s.space() {
		if s.text[s.pos] == ',' {
			s.pos++
			s.space()
		}
		other := member(s.quoted())
		s.space()
		s.pos++ // the colon
		if strings.EqualFold(other, name) {
			if seen {
				return key.ErrAmbiguous
			}
			seen = true
			if other == name {
				found = s.pos
			}
		}
		s.skip()
	}
	if found < 0 {
		return key.ErrMissing
	}
	s.pos = found
	return nil
}

// member is the name of a member, as far as it can be one of a template's: those
// have neither a "/" nor half of a character in them.
func member(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	name, _ := strconv.Unquote(string(quoted))
	return name
}

// quoted passes a string and returns it with its quotes.
func (s *scanner) quoted() []byte {
	start := s.pos
	for s.pos++; s.text[s.pos] != '"'; s.pos++ {
		if s.text[s.pos] == '\\' {
			s.pos++
		}
	}
	s.pos++
	return s.text[start:s.pos]
}

// skip passes a value.
func (s *scanner) skip() {
	for depth := 0; ; {
		s.space()
		switch s.text[s.pos] {
		case '"':
			s.quoted()
		case '{', '[':
			depth++
			s.pos++
			continue
		case '}', ']':
			depth--
			s.pos++
		case ',', ':':
			s.pos++
			continue
		default:
			s.word()
		}
		if depth == 0 {
			return
		}
	}
}

// word passes a number, true, false or null.
func (s *scanner) word() string {
	start := s.pos
	for s.pos < len(s.text) && !strings.ContainsRune(",]} \t\r\n", rune(s.text[s.pos])) {
		s.pos++
	}
	return string(s.text[start:s.pos])
}

// scalar is the value as a string: a string, an integer or a boolean. 1.0, 1e0
// and -0 are refused: they are integers that are written in another way.
func (s *scanner) scalar() (string, error) {
	s.space()
	switch s.text[s.pos] {
	case '"':
		value, err := unquote(s.quoted())
		if err == nil && strings.ContainsRune(value, utf8.RuneError) {
			err = key.ErrInvalid // no valid Unicode: parsers make different things of it
		}
		return value, err
	case '{', '[':
		return "", key.ErrInvalid
	}
	written := s.word()
	switch written {
	case "true", "false":
		return written, nil
	case "null":
		return "", key.ErrMissing
	case "-0":
		return "", key.ErrInvalid
	}
	n, err := strconv.ParseInt(written, 10, 64)
	switch {
	case err != nil && strings.ContainsAny(written, ".eE"):
		return "", key.ErrInvalid
	case err != nil, n > maxInteger, n < -maxInteger:
		return "", errInteger
	}
	return written, nil
}

// unquote is the string of a JSON string.
func unquote(quoted []byte) (string, error) {
	var value string
	if err := json.Unmarshal(quoted, &value); err != nil {
		return "", key.ErrInvalid
	}
	return value, nil
}

package httpguard

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/redlatch/redlatch/core/key"
)

// jsonField finds the value at path in a JSON text.
//
// Names match exactly. But decoders into Go structs match them in any case,
// and let the last one win: {"userId":1,"USERID":2} would be locked as 1 and
// carried out as 2. So a second name that differs only in case is refused.
func jsonField(text []byte, path []string) (string, error) {
	if !json.Valid(text) {
		return "", key.ErrInvalid
	}
	value := json.RawMessage(text)
	for _, name := range path {
		var err error
		if value, err = member(value, name); err != nil {
			return "", err
		}
	}
	return scalar(value)
}

// member returns a member of an object. The text is valid JSON.
func member(object json.RawMessage, name string) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, key.ErrInvalid
	}
	var found json.RawMessage
	seen := false
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, key.ErrInvalid
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, key.ErrInvalid
		}
		other, _ := token.(string)
		if !strings.EqualFold(other, name) {
			continue
		}
		if seen {
			return nil, key.ErrAmbiguous
		}
		seen = true
		if other == name {
			found = value
		}
	}
	if found == nil {
		return nil, key.ErrMissing
	}
	return found, nil
}

// scalar is the text of a string, an integer or a boolean. 1.0, 1e0 and -0
// are refused: they are integers that are written in another way.
func scalar(value json.RawMessage) (string, error) {
	value = bytes.TrimSpace(value)
	written := string(value)
	switch {
	case value[0] == '"':
		var s string
		if err := json.Unmarshal(value, &s); err != nil {
			return "", key.ErrInvalid
		}
		return s, nil
	case written == "true", written == "false":
		return written, nil
	case written == "null":
		return "", key.ErrMissing
	case written == "-0", strings.ContainsAny(written, "{[.eE"):
		return "", key.ErrInvalid
	}
	return written, nil
}

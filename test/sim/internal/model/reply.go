package model

import (
	"bytes"
	"strconv"
)

// Reply is what a command answers: an int64, a string, a Status, an Error, nil,
// or a []Reply of these.
type Reply any

// Status is a reply such as OK.
type Status string

// Error is a reply that starts with a code, such as "WRONGTYPE ...".
type Error string

// Encode appends a reply in the second version of Redis's protocol.
func Encode(b []byte, r Reply) []byte {
	switch r := r.(type) {
	case nil:
		return append(b, "$-1\r\n"...)
	case int64:
		return line(b, ':', strconv.FormatInt(r, 10))
	case Status:
		return line(b, '+', string(r))
	case Error:
		return line(b, '-', string(bytes.ReplaceAll([]byte(r), []byte("\r\n"), []byte(" "))))
	case string:
		b = line(b, '$', strconv.Itoa(len(r)))
		return append(append(b, r...), '\r', '\n')
	case []Reply:
		b = line(b, '*', strconv.Itoa(len(r)))
		for _, element := range r {
			b = Encode(b, element)
		}
		return b
	default:
		return line(b, '-', "ERR the model made a reply that has no encoding")
	}
}

func line(b []byte, kind byte, text string) []byte {
	return append(append(append(b, kind), text...), '\r', '\n')
}

const (
	errWrongType  = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	errNotInteger = Error("ERR value is not an integer or out of range")
	errNotFloat   = Error("ERR value is not a valid float")
	errSyntax     = Error("ERR syntax error")
	errHash       = Error("ERR hash value is not an integer")
	errOverflow   = Error("ERR increment or decrement would overflow")
	// ErrNoScript is the answer to the SHA-1 of a script that is not known.
	ErrNoScript = Error("NOSCRIPT No matching script. Please use EVAL.")
)

func boolean(yes bool) Reply {
	if yes {
		return int64(1)
	}
	return int64(0)
}

// float writes a number as Redis writes scores.
func float(f float64) string {
	if f == float64(int64(f)) && f > -1e15 && f < 1e17 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/redlatch/redlatch/core/key"
)

var (
	errBodyType = fmt.Errorf("%w: the body has another type", key.ErrInvalid)
	errBodyRead = errors.New("the body could not be read")
)

// body is a request body that was read and can be read again.
type body struct {
	*bytes.Reader
	io.Closer
	text []byte
}

// ReadBody reads the whole body of r and leaves it to be read again, from its
// start: by the handlers, and by a ReadBody that comes later. A body of more
// than limit bytes is an [*http.MaxBytesError].
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if _, known := r.Body.(*body); !known {
		text, err := receive(w, r, limit)
		if err != nil {
			return nil, err
		}
		ReplaceBody(r, text)
	}
	known := r.Body.(*body)
	known.Reader = bytes.NewReader(known.text)
	if int64(len(known.text)) > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	return known.text, nil
}

// ReplaceBody makes text the body of r. To close it closes the one before.
func ReplaceBody(r *http.Request, text []byte) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.Body = &body{Reader: bytes.NewReader(text), Closer: r.Body, text: text}
}

// receive takes the body from the client.
func receive(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyRead, err)
	}
	return text, nil
}

// BodyField is the field at a dotted path of a JSON body: a text, an integer
// or a boolean. Any other value, a name that is there twice (in whatever case)
// and a body of another type are refused.
func BodyField(h http.Header, path string, read func() ([]byte, error)) (string, error) {
	if media := mediaType(h); media != "application/json" && !strings.HasSuffix(media, "+json") {
		return "", errBodyType
	}
	text, err := read()
	if err != nil {
		return "", err
	}
	return jsonField(text, strings.Split(path, "."))
}

// FormField is a field of a URL-encoded body. Where an earlier middleware has
// parsed the form, it is that form.
func FormField(r *http.Request, name string, read func() ([]byte, error)) (string, error) {
	if parsed := r.PostForm; parsed != nil {
		return Only(parsed[name])
	}
	if mediaType(r.Header) != "application/x-www-form-urlencoded" {
		return "", errBodyType
	}
	text, err := read()
	if err != nil {
		return "", err
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return "", key.ErrInvalid
	}
	return Only(form[name])
}

// mediaType is the type of the body, empty for one that is compressed: the
// handlers would see another text than the key.
func mediaType(h http.Header) string {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return ""
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

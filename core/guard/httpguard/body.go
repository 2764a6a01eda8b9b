package httpguard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/key"
)

var (
	errBodyType   = fmt.Errorf("%w: the body has another type", key.ErrInvalid)
	errFormMethod = fmt.Errorf("%w: a request of this method has no form", key.ErrInvalid)
	errInteger    = fmt.Errorf("%w: the integer is beyond 2^53", key.ErrInvalid)
	errBodyRead   = errors.New("the body could not be read")
)

// body is a request body that was read and can be read again.
type body struct {
	*bytes.Reader
	io.Closer
	text []byte
}

// bodyOf is the whole body of the request. Only requests that a [Middleware] made
// have one.
func bodyOf(q Request) ([]byte, error) {
	c, ok := q.(*call)
	if !ok {
		return nil, guard.ErrUnresolvable
	}
	return c.readBody()
}

// announcesBody reports whether the request says that a body follows. What follows
// a CONNECT isn't a body but the tunnel.
func announcesBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody && r.Method != http.MethodConnect
}

// unread is a body that is left to the handler, as long as no source reads it. The first
// that does makes it one that was read, so that all of it is there for the others.
type unread struct {
	io.ReadCloser
	c *call
}

func (u *unread) Read(p []byte) (int, error) {
	if _, known := u.c.r.Body.(*body); !known && u.c.unreadable == nil {
		_, u.c.unreadable = u.c.readBody()
	}
	if u.c.unreadable != nil {
		return 0, u.c.unreadable
	}
	return u.c.r.Body.Read(p)
}

// Close does nothing: the body is the handler's.
func (u *unread) Close() error { return nil }

// unwrapBody leaves a body that no source has read as it was.
func (c *call) unwrapBody() {
	if left, ok := c.r.Body.(*unread); ok {
		c.r.Body = left.ReadCloser
	}
}

// own makes r a copy: the request itself belongs to those in front of the middleware.
func (c *call) own() {
	if !c.owned {
		c.r, c.owned = c.r.WithContext(c.r.Context()), true
	}
}

// readBody reads the whole body and leaves it to the handler.
func (c *call) readBody() ([]byte, error) {
	c.own()
	c.unwrapBody()
	text, err := readBody(c.Writer(), c.r, c.m.maxBody)
	c.r.Trailer = c.Exchange.HTTP().Trailer // of the request that the server made, as it was read
	if err != nil || len(text) > 0 {
		return text, err
	}
	if d, ok := c.Exchange.(drained); ok {
		if kept := d.BodyBytes(); len(kept) > 0 {
			replaceBody(c.r, kept)
			return readBody(c.Writer(), c.r, c.m.maxBody)
		}
	}
	return text, nil
}

// readBody reads the whole body of r and leaves it to be read again, from its
// start: by the handlers, and by a readBody that comes later. A body of more than
// limit bytes is an [*http.MaxBytesError].
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if _, known := r.Body.(*body); !known {
		text, err := receive(w, r, limit)
		if err != nil {
			return nil, err
		}
		replaceBody(r, text)
	}
	known := r.Body.(*body)
	known.Reader = bytes.NewReader(known.text)
	if int64(len(known.text)) > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	return known.text, nil
}

// replaceBody makes text the body of r. Closing the new body closes the old one.
func replaceBody(r *http.Request, text []byte) {
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

// mediaType returns the type of the body. It's empty for a compressed body, because
// the handler sees other bytes than the key does, and for a repeated or malformed
// header, which parsers read in different ways.
func mediaType(h http.Header) string {
	for _, line := range h.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(line), "identity") {
			return ""
		}
	}
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return ""
	}
	media, _, err := mime.ParseMediaType(types[0])
	if err != nil {
		return ""
	}
	return media
}

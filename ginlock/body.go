package ginlock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

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

// preread reads the body where no variable of the key does.
func (m *middleware) preread(c *gin.Context) error {
	if !m.readFirst {
		return nil
	}
	_, err := m.readBody(c)
	return err
}

// readBody reads the whole body and leaves it to the handlers, whichever way
// they bind it. A body that is too large is an [*http.MaxBytesError].
func (m *middleware) readBody(c *gin.Context) ([]byte, error) {
	known, ok := c.Request.Body.(*body)
	if !ok {
		text, err := m.receive(c)
		if err != nil {
			return nil, err
		}
		known = &body{Closer: c.Request.Body, text: text}
		c.Set(gin.BodyBytesKey, text)
		c.Request.Body = known
	}
	known.Reader = bytes.NewReader(known.text)
	if int64(len(known.text)) > m.maxBody {
		return nil, &http.MaxBytesError{Limit: m.maxBody}
	}
	return known.text, nil
}

// receive takes the body from the client, or from an earlier
// ShouldBindBodyWith, which drained it and kept the bytes.
func (m *middleware) receive(c *gin.Context) ([]byte, error) {
	if c.Request.Body == nil {
		c.Request.Body = http.NoBody
	}
	if c.Request.ContentLength > m.maxBody {
		return nil, &http.MaxBytesError{Limit: m.maxBody}
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, m.maxBody))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBodyRead, err)
	}
	if len(text) > 0 {
		return text, nil
	}
	cached, _ := c.Get(gin.BodyBytesKey)
	kept, _ := cached.([]byte)
	return kept, nil
}

// bodyField is a field of a JSON body.
func (m *middleware) bodyField(c *gin.Context, path string) (string, error) {
	if media := mediaType(c.Request.Header); media != "application/json" && !strings.HasSuffix(media, "+json") {
		return "", errBodyType
	}
	read, err := m.readBody(c)
	if err != nil {
		return "", err
	}
	return jsonField(read, strings.Split(path, "."))
}

// formField is a field of a URL-encoded body. Where an earlier middleware has
// parsed the form, it is that form.
func (m *middleware) formField(c *gin.Context, name string) (string, error) {
	if parsed := c.Request.PostForm; parsed != nil {
		return only(parsed[name])
	}
	if mediaType(c.Request.Header) != "application/x-www-form-urlencoded" {
		return "", errBodyType
	}
	read, err := m.readBody(c)
	if err != nil {
		return "", err
	}
	form, err := url.ParseQuery(string(read))
	if err != nil {
		return "", key.ErrInvalid
	}
	return only(form[name])
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

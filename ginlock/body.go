package ginlock

import (
	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard/httpguard"
)

// readBody reads the whole body and leaves it to the handlers, whichever way
// they bind it. A body that is too large is an [*http.MaxBytesError].
func (m *middleware) readBody(c *gin.Context) ([]byte, error) {
	text, err := httpguard.ReadBody(c.Writer, c.Request, m.MaxBody)
	if err == nil && len(text) == 0 {
		// An earlier ShouldBindBodyWith drains the body and keeps the bytes.
		kept, _ := c.Get(gin.BodyBytesKey)
		if bound, _ := kept.([]byte); len(bound) > 0 {
			httpguard.ReplaceBody(c.Request, bound)
			text, err = httpguard.ReadBody(c.Writer, c.Request, m.MaxBody)
		}
	}
	if err != nil {
		return nil, err
	}
	c.Set(gin.BodyBytesKey, text)
	return text, nil
}

// bodyField is a field of a JSON body.
func (m *middleware) bodyField(c *gin.Context, path string) (string, error) {
	return httpguard.BodyField(c.Request.Header, path, func() ([]byte, error) { return m.readBody(c) })
}

// formField is a field of a URL-encoded body.
func (m *middleware) formField(c *gin.Context, name string) (string, error) {
	return httpguard.FormField(c.Request, name, func() ([]byte, error) { return m.readBody(c) })
}

package ginlock

import (
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
)

// Source finds a value in a request. It returns [key.ErrMissing] when there
// is none and [key.ErrAmbiguous] when there are several; other errors are the
// request's fault as well, unless they wrap [guard.ErrUnresolvable].
type Source func(c *gin.Context) (string, error)

// Path is a path parameter.
func Path(name string) Source {
	return func(c *gin.Context) (string, error) {
		value, ok := c.Params.Get(name)
		if !ok {
			return "", fmt.Errorf("%w: the route has no parameter %q", guard.ErrUnresolvable, name)
		}
		return value, nil
	}
}

// Query is a query parameter. One that is there twice is refused: the handler
// may read the other one.
func Query(name string) Source {
	return func(c *gin.Context) (string, error) { return httpguard.Only(c.QueryArray(name)) }
}

// Header is a request header. One that is there twice is refused.
func Header(name string) Source {
	return func(c *gin.Context) (string, error) { return httpguard.Only(c.Request.Header.Values(name)) }
}

// Cookie is a cookie, unescaped as [gin.Context.Cookie] does. One that is
// there twice is refused.
func Cookie(name string) Source {
	return func(c *gin.Context) (string, error) { return httpguard.Cookie(c.Request, name) }
}

// Ctx is a value that an earlier middleware set: with [gin.Context.Set], or
// in the request's context. Both at once must agree. Texts, integers and
// booleans are taken as they are; other types need a MarshalText or String
// method.
func Ctx(name any) Source {
	return func(c *gin.Context) (string, error) {
		value, ok, err := provided(c, name)
		if err == nil && !ok {
			err = key.ErrMissing
		}
		return value, err
	}
}

// value finds the value of a template's variable.
func (m *middleware) value(c *gin.Context, v key.Var) (string, error) {
	switch v.Source {
	case "":
		return m.bare(c, v)
	case "path":
		return Path(v.Name)(c)
	case "query":
		return Query(v.Name)(c)
	case "header":
		return Header(v.Name)(c)
	case "cookie":
		return Cookie(v.Name)(c)
	case "ctx":
		return Ctx(v.Name)(c)
	case "form":
		return m.formField(c, v.Name)
	case "body":
		return m.bodyField(c, v.Name)
	}
	return "", guard.ErrUnresolvable
}

// bare finds the value of a name without a source: only where the client
// cannot choose among several places.
func (m *middleware) bare(c *gin.Context, v key.Var) (string, error) {
	if v.Reserved() {
		return reserved(c, v.Name)
	}
	if src, ok := m.Vars[v.Name]; ok {
		return src(c)
	}
	param, inPath := c.Params.Get(v.Name)
	set, isSet, err := provided(c, v.Name)
	switch {
	case err != nil:
		return "", err
	case inPath && isSet && param != set:
		return "", key.ErrAmbiguous
	case inPath:
		return param, nil
	case isSet:
		return set, nil
	}
	return "", guard.ErrUnresolvable
}

func reserved(c *gin.Context, name string) (string, error) {
	switch name {
	case "method":
		return c.Request.Method, nil
	case "route":
		return c.FullPath(), nil
	case "ip":
		return c.ClientIP(), nil
	}
	return "", guard.ErrUnresolvable
}

// provided is what earlier middlewares set under a name.
func provided(c *gin.Context, name any) (value string, ok bool, err error) {
	if set, exists := c.Get(name); exists {
		if value, err = guard.Text(set); err != nil {
			return "", true, err
		}
		ok = true
	}
	set := c.Request.Context().Value(name)
	if set == nil {
		return value, ok, nil
	}
	inContext, err := guard.Text(set)
	if err == nil && ok && inContext != value {
		err = key.ErrAmbiguous
	}
	return inContext, true, err
}

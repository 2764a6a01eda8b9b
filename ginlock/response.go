package ginlock

import (
	"bufio"
	"net"
	"net/http"
	"reflect"

	"github.com/gin-gonic/gin"
)

// observed notes whether an answer has begun. Writers that middlewares have put in the
// place of Gin's don't say so: one that keeps the body back says that nothing is written.
// None says whether a status was chosen.
type observed struct {
	gin.ResponseWriter

	begun  bool
	status bool // one was chosen, which may be written later
}

// isGins reports whether w is Gin's own writer, which says so itself.
func isGins(w gin.ResponseWriter) bool {
	t := reflect.TypeOf(w)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[gin.Context]().PkgPath()
}

func (w *observed) WriteHeader(status int) {
	w.status = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *observed) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

func (w *observed) WriteString(s string) (int, error) {
	w.begun = true
	return w.ResponseWriter.WriteString(s)
}

func (w *observed) WriteHeaderNow() {
	w.begun = true
	w.ResponseWriter.WriteHeaderNow()
}

func (w *observed) Flush() {
	w.begun = true
	w.ResponseWriter.Flush()
}

func (w *observed) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.ResponseWriter.Hijack()
	w.begun = w.begun || err == nil
	return conn, buffered, err
}

// Unwrap is for [http.ResponseController].
func (w *observed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

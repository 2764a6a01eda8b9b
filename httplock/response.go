package httplock

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// response records whether an answer has begun. It implements the same optional
// interfaces as the writer that it wraps. [http.ResponseController] finds the other
// ones by Unwrap.
type response struct {
	http.ResponseWriter
	begun bool
}

// observe wraps w. Handlers find out by type assertion whether a writer flushes or
// hijacks, so there is a type for each combination.
func observe(w http.ResponseWriter) (http.ResponseWriter, *response) {
	flushes, hijacks := is[http.Flusher](w), is[http.Hijacker](w)
	switch {
	case flushes && hijacks:
		h1 := &flusherAndHijacker{response{ResponseWriter: w}}
		return h1, &h1.response
	case flushes:
		h2 := &flusher{response{ResponseWriter: w}}
		return h2, &h2.response
	case hijacks:
		h := &hijacker{response{ResponseWriter: w}}
		return h, &h.response
	}
	plain := &response{ResponseWriter: w}
	return plain, plain
}

// as returns the first of w and the writers behind it that is a T.
func as[T any](w http.ResponseWriter) (found T, ok bool) {
	for {
		if found, ok = w.(T); ok {
			return found, true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return found, false
		}
		w = wrapper.Unwrap()
	}
}

// is reports whether w, or a writer behind it, is a T.
func is[T any](w http.ResponseWriter) bool {
	_, ok := as[T](w)
	return ok
}

// discarded is an answer that nobody gets, because there is one already.
type discarded struct{}

func (discarded) Header() http.Header         { return make(http.Header) }
func (discarded) WriteHeader(int)             {}
func (discarded) Write(p []byte) (int, error) { return len(p), nil }

// Unwrap is for [http.ResponseController].
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes the beginning. A 1xx announces an answer that is to come.
func (w *response) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begun = true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// WriteString is for [io.WriteString].
func (w *response) WriteString(s string) (int, error) {
	w.begun = true
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom is for [io.Copy]: a file goes to the connection without passing
// through the program. Its beginning is written first, because a source that fails at
// once, as it does when the lease's context has ended, begins no answer.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.CopyN(struct{ io.Writer }{w}, src, 512) // what net/http looks at for the type
	if err != nil {
		if err == io.EOF { //nolint:errorlint // CopyN says so of a short source
			err = nil
		}
		return n, err
	}
	rest, err := io.Copy(w.ResponseWriter, src)
	return n + rest, err
}

// FlushError is for [http.ResponseController].
func (w *response) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.begun = w.begun || !errors.Is(err, http.ErrNotSupported)
	return err
}

func (w *response) flush() { _ = w.FlushError() }

func (w *response) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.begun = w.begun || err == nil
	return conn, buffered, err
}

// notifier is http.CloseNotifier, which is deprecated. Gin's writer calls it without asking.
type notifier interface {
	CloseNotify() <-chan bool
}

// closeNotify returns a channel that says nothing if no writer behind w has one.
func (w *response) closeNotify() <-chan bool {
	if n, ok := as[notifier](w.ResponseWriter); ok {
		return n.CloseNotify()
	}
	return nil
}

// flusher is the response of HTTP/2.
type flusher struct{ response }

// Flush implements [http.Flusher].
func (w *flusher) Flush() { w.flush() }

// CloseNotify implements http.CloseNotifier.
func (w *flusher) CloseNotify() <-chan bool { return w.closeNotify() }

// hijacker is the response of a server that doesn't flush.
type hijacker struct{ response }

// Hijack implements [http.Hijacker].
func (w *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

// flusherAndHijacker is the response of HTTP/1.
type flusherAndHijacker struct{ response }

// Flush implements [http.Flusher].
func (w *flusherAndHijacker) Flush() { w.flush() }

// Hijack implements [http.Hijacker].
func (w *flusherAndHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

// CloseNotify implements http.CloseNotifier.
func (w *flusherAndHijacker) CloseNotify() <-chan bool { return w.closeNotify() }

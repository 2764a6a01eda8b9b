package guardtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Send serves one request. Headers are names, each followed by its value.
func Send(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	return recorder
}

// Code is the code of a problem document.
func Code(t testing.TB, r *httptest.ResponseRecorder) string {
	t.Helper()
	var problem struct{ Code string }
	if err := json.Unmarshal(r.Body.Bytes(), &problem); err != nil {
		t.Errorf("%d %q is no problem document: %v", r.Code, r.Body, err)
	}
	return problem.Code
}

// WatchRead is the body of a request that calls onRead before it is read.
func WatchRead(body io.ReadCloser, onRead func()) io.ReadCloser {
	return &watched{body, onRead}
}

type watched struct {
	io.ReadCloser

	onRead func()
}

func (w *watched) Read(p []byte) (int, error) {
	w.onRead()
	return w.ReadCloser.Read(p)
}

package httpguard

import "net/http"

// Draft is an answer that an integration hands to its framework, where that has no
// [http.ResponseWriter]. It is the Writer of an [Exchange] then.
type Draft struct {
	header http.Header
	status int
	body   []byte
}

// NewDraft returns a draft whose header is that of the framework's answer so far.
func NewDraft(header http.Header) *Draft { return &Draft{header: header} }

// Header implements [http.ResponseWriter].
func (d *Draft) Header() http.Header { return d.header }

// WriteHeader implements [http.ResponseWriter]. The first status counts, unless it is a 1xx.
func (d *Draft) WriteHeader(status int) {
	if d.status == 0 && status >= http.StatusOK {
		d.status = status
	}
}

// Write implements [http.ResponseWriter].
func (d *Draft) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	d.body = append(d.body, p...)
	return len(p), nil
}

// Flush is for [http.ResponseController]: the answer has begun, and is sent as a whole.
func (d *Draft) Flush() { d.WriteHeader(http.StatusOK) }

// Answer returns the status and the body; status is 0 if no answer has begun.
func (d *Draft) Answer() (status int, body []byte) { return d.status, d.body }

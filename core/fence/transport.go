package fence

import (
	"net/http"

	"github.com/redlatch/redlatch/core/lock"
)

// Transport is an [http.RoundTripper] that adds the token of the lease in the
// request's context to the request: that of the innermost lease if there are
// several. It leaves alone what has no lease, what has the header already, and what
// comes after a redirect to another scheme or host. A lease that has no token (see
// [Of]) fails the request.
//
// It is for clients of resources that check tokens. Don't send tokens to others.
type Transport struct {
	// Base sends the requests; nil means [http.DefaultTransport].
	Base http.RoundTripper
	// Signer signs the tokens, with the key of the lease's lock; nil doesn't.
	Signer *Signer
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	lease, held := lock.FromContext(r.Context())
	if !held || r.Header.Get(Header) != "" || sentElsewhere(r) {
		return base.RoundTrip(r)
	}
	token, err := Of(lease)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper does, also on errors
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	if r.Header == nil { // a Client makes one, a direct caller need not
		r.Header = http.Header{}
	}
	t.Signer.Set(r.Header, lease.Key(), token)
	return base.RoundTrip(r)
}

// sentElsewhere reports whether a redirect has changed the scheme or the host. Such a
// place decides where the redirects after it lead.
func sentElsewhere(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		before := r.Response.Request
		if before.URL.Scheme != r.URL.Scheme || before.URL.Host != r.URL.Host {
			return true
		}
		r = before
	}
	return false
}

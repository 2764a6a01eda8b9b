package fence

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
)

// Header is the header of a request that carries a token: "<fence>;<owner>", and
// with a [Signer] ";<signature>" behind it, 64 digits of hex.
const Header = "Lock-Fence"

const (
	minSecret  = 16
	signature  = 2 * sha256.Size
	signedText = "redlatch fence 1\n" // so that the secret's other uses make other sums
)

// Signer signs tokens, so that only services that know a secret can make them. The
// signature is HMAC SHA-256 over the token and the key of the lock, so a token of
// one lock isn't valid for another. Without a signer, anyone who can reach the
// resource can shut out the holder with a larger fence. A nil Signer neither signs
// nor checks. Use [NewSigner]: the zero Signer has no secret, so it accepts no token
// and panics when it should sign one.
type Signer struct{ secrets [][]byte }

// NewSigner returns a signer with a secret of at least 16 bytes. The old secrets
// are accepted as well: to change one, first make the new one known everywhere
// as an old one.
func NewSigner(secret []byte, old ...[]byte) (*Signer, error) {
	s := &Signer{}
	for _, one := range append([][]byte{secret}, old...) {
		if len(one) < minSecret {
			return nil, errors.New("fence: a secret must have at least 16 bytes")
		}
		s.secrets = append(s.secrets, append([]byte(nil), one...))
	}
	return s, nil
}

// Format returns the value of [Header] for a token of the lock with that key.
func (s *Signer) Format(key string, t Token) string {
	text := t.String()
	if s == nil {
		return text
	}
	if len(s.secrets) == 0 {
		panic("fence.Signer: there is no secret: use NewSigner") //nolint:forbidigo // documented: a wrong set-up cannot be run
	}
	return text + ";" + sum(s.secrets[0], key, text)
}

// Parse reads what [Signer.Format] writes for the same key. Errors:
// [ErrMalformed], [ErrForged].
func (s *Signer) Parse(key, text string) (Token, error) {
	if s == nil {
		return Parse(text)
	}
	at := strings.LastIndexByte(text, ';')
	if at < 0 || len(text) > maxText+1+signature {
		return Token{}, ErrMalformed
	}
	t, err := Parse(text[:at])
	if err != nil {
		if _, plain := Parse(text); plain == nil {
			return Token{}, ErrForged // it has no signature
		}
		return Token{}, err
	}
	for _, secret := range s.secrets {
		if hmac.Equal([]byte(sum(secret, key, text[:at])), []byte(text[at+1:])) {
			return t, nil
		}
	}
	return Token{}, ErrForged
}

func sum(secret []byte, key, text string) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(signedText + text + "\n" + key)) // the text has no line break
	return hex.EncodeToString(h.Sum(nil))
}

// Set puts a token of the lock with that key on a request. See [Transport], which
// does it for all requests.
func (s *Signer) Set(h http.Header, key string, t Token) { h.Set(Header, s.Format(key, t)) }

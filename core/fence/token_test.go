package fence_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/fence"
	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/memstore"
)

const owner = "0123456789abcdef0123456789abcdef"

func TestATokenReadsAsItIsWritten(t *testing.T) {
	for text, want := range map[string]fence.Token{
		"1;" + owner:                   {Fence: 1, Owner: owner},
		"1763735688000000;" + owner:    {Fence: 1763735688000000, Owner: owner},
		"9223372036854775807;" + owner: {Fence: fence.MaxFence, Owner: owner},
	} {
		got, err := fence.Parse(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

// malformed are strings that aren't tokens. The first two are the zero value and
// one more than 63 bits.
var malformed = []string{
	"0;" + owner, "9223372036854775808;" + owner,
	"", ";", "1", "1;", ";" + owner, "1:" + owner, "1;" + owner + ";", "1;" + owner[1:], "1;" + owner + "0",
	"01;" + owner, "+1;" + owner, "-1;" + owner, "1.0;" + owner, "1e3;" + owner, "0x1;" + owner, "1_0;" + owner,
	" 1;" + owner, "1 ;" + owner, "1; " + owner, "1;" + owner + " ", "1;" + owner + "\n", "1,1;" + owner,
	"1;" + strings.ToUpper(owner), "1;" + strings.Repeat("g", 32), "1;" + strings.Repeat("é", 16),
	"18446744073709551617;" + owner, "١;" + owner, strings.Repeat("1", 1<<20) + ";" + owner,
}

func TestWhatIsNoTokenIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, text := range malformed {
		got, err := fence.Parse(text)
		if !errors.Is(err, fence.ErrMalformed) {
			t.Errorf("Parse(%.60q) = %v, %v, want ErrMalformed", text, got, err)
		}
		if err != nil && strings.Contains(err.Error(), owner) {
			t.Errorf("the error repeats the owner: %v", err)
		}
		known := fence.New(7, "o:1")
		if err := known.UnmarshalText([]byte(text)); err == nil || known != fence.New(7, "o:1") {
			t.Errorf("UnmarshalText(%.60q): %v, and it left %v", text, err, known)
		}
	}
}

func TestATokenTravelsInJSONAsText(t *testing.T) {
	type message struct{ Token fence.Token }
	text, err := json.Marshal(message{fence.New(fence.MaxFence, "o:1")})
	if err != nil || !strings.Contains(string(text), `"9223372036854775807;`) {
		t.Fatalf("%s, %v", text, err)
	}
	var back message
	if err := json.Unmarshal(text, &back); err != nil || back.Token != fence.New(fence.MaxFence, "o:1") {
		t.Errorf("read back %v, %v", back, err)
	}
	if _, err := json.Marshal(message{}); !errors.Is(err, fence.ErrMalformed) {
		t.Errorf("the zero token is written: %v", err)
	}
}

func TestTheTokenOfALeaseTellsOwnersApartAndDoesNotNameThem(t *testing.T) {
	locker := newLocker(t)
	first, err := locker.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := locker.Acquire(first.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	a, reentered := of(t, first), of(t, inner)
	if a != reentered || a.Fence != first.Fence() {
		t.Errorf("the lease has %v, re-entered %v, its fence is %d", a, reentered, first.Fence())
	}
	if text := a.String(); strings.Contains(text, first.Owner()) || strings.Contains(text, strings.Split(first.Owner(), ":")[0]) {
		t.Errorf("%s holds the owner %s", text, first.Owner())
	}
	_ = inner.Release(t.Context())
	_ = first.Release(t.Context())
	second, err := locker.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if b := of(t, second); b.Fence <= a.Fence || b.Owner == a.Owner {
		t.Errorf("the next grant has %v after %v", b, a)
	}
}

func TestALeaseThatOthersShareHasNoToken(t *testing.T) {
	locker := newLocker(t)
	if _, err := fence.Of(nil); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("no lease: %v, want ErrNotHeld", err)
	}
	for name, opt := range map[string]lock.Option{"read": lock.WithMode(lock.Read), "permits": lock.WithPermits(1, 2)} {
		lease, err := locker.Acquire(t.Context(), name, opt)
		if err != nil {
			t.Fatal(err)
		}
		if token, err := fence.Of(lease); !errors.Is(err, lock.ErrUnsupported) || token != (fence.Token{}) {
			t.Errorf("%s: %v, %v, want ErrUnsupported", name, token, err)
		}
	}
}

func newLocker(t *testing.T) *lock.Locker {
	t.Helper()
	locker := lock.New(memstore.New())
	t.Cleanup(func() { _ = locker.Close(t.Context()) })
	return locker
}

func of(t *testing.T, lease *lock.Lease) fence.Token {
	t.Helper()
	token, err := fence.Of(lease)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// FuzzParse: whatever is accepted is written the same again, and nothing else
// reads as the same token.
func FuzzParse(f *testing.F) {
	for _, seed := range append(malformed, "1;"+owner, "9223372036854775807;"+owner) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := fence.Parse(text)
		switch {
		case err != nil && !errors.Is(err, fence.ErrMalformed):
			t.Fatalf("Parse(%q): %v", text, err)
		case err != nil:
			return
		case token.String() != text:
			t.Fatalf("Parse(%q) reads as %q", text, token)
		case token.Fence == 0 || token.Fence > fence.MaxFence || len(token.Owner) != 32:
			t.Fatalf("Parse(%q) = %+v", text, token)
		}
	})
}

// FuzzHeader: the header of a signed token passes for its own lock, and nothing
// that differs from it in any byte, or is for another lock.
func FuzzHeader(f *testing.F) {
	signer, err := fence.NewSigner([]byte("0123456789abcdef"))
	if err != nil {
		f.Fatal(err)
	}
	good := fence.New(7, "o:1")
	f.Add("lock:order:42", signer.Format("lock:order:42", good))
	f.Add("lock:order:42", good.String())
	f.Add("", "1;"+owner+";"+strings.Repeat("0", 64))
	for _, text := range malformed {
		f.Add("k", text)
	}
	f.Fuzz(func(t *testing.T, key, text string) {
		token, err := signer.Parse(key, text)
		switch {
		case unsigned(text) && !errors.Is(err, fence.ErrForged):
			t.Fatalf("Parse(%q, %q) of a token without a signature: %v", key, text, err)
		case err == nil && signer.Format(key, token) != text:
			t.Fatalf("Parse(%q, %q) = %v, which is %q", key, text, token, signer.Format(key, token))
		case err != nil && !errors.Is(err, fence.ErrMalformed) && !errors.Is(err, fence.ErrForged):
			t.Fatalf("Parse(%q, %q): %v", key, text, err)
		}
	})
}

func unsigned(text string) bool {
	_, err := fence.Parse(text)
	return err == nil
}

func TestASignerWithoutASecretSignsAndAcceptsNothing(t *testing.T) {
	var none fence.Signer
	token := fence.New(7, "an owner")
	if _, err := none.Parse("k", token.String()+";"); !errors.Is(err, fence.ErrForged) {
		t.Errorf("parse: %v, want %v", err, fence.ErrForged)
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "NewSigner") {
			t.Errorf("format: panic %q, want one that names NewSigner", said)
		}
	}()
	_ = none.Format("k", token)
}

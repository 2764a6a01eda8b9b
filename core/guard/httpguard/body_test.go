package httpguard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
)

func TestBodyIsReadOnceAndCanBeReadAgain(t *testing.T) {
	closed := 0
	r := httptest.NewRequest("POST", "/", nil)
	r.Body = closing{strings.NewReader("text"), &closed}
	r.ContentLength = -1
	for range 2 {
		text, err := httpguard.ReadBody(httptest.NewRecorder(), r, 4)
		if string(text) != "text" || err != nil {
			t.Fatalf("got %q, %v", text, err)
		}
		left, err := io.ReadAll(r.Body)
		if string(left) != "text" || err != nil {
			t.Fatalf("the handler gets %q, %v", left, err)
		}
	}
	if err := r.Body.Close(); err != nil || closed != 1 {
		t.Errorf("closed %d times, %v", closed, err)
	}
}

type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}

func TestBodyThatIsLargerThanTheLimit(t *testing.T) {
	large := func(title string, r *http.Request) {
		t.Helper()
		var limit *http.MaxBytesError
		if _, err := httpguard.ReadBody(httptest.NewRecorder(), r, 3); !errors.As(err, &limit) || limit.Limit != 3 {
			t.Errorf("%s: got %v", title, err)
		}
	}
	large("by its length", httptest.NewRequest("POST", "/", strings.NewReader("text")))
	unknown := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("text")))
	large("of unknown length", unknown)
	replaced := httptest.NewRequest("POST", "/", nil)
	httpguard.ReplaceBody(replaced, []byte("text"))
	large("read by somebody else", replaced)
}

func TestRequestThatHasNoBody(t *testing.T) {
	r := &http.Request{}
	if text, err := httpguard.ReadBody(httptest.NewRecorder(), r, 1); len(text) != 0 || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if left, err := io.ReadAll(r.Body); len(left) != 0 || err != nil {
		t.Errorf("left are %q, %v", left, err)
	}
}

func TestFormThatWasParsedIsTheOneThatCounts(t *testing.T) {
	r := httptest.NewRequest("POST", "/?id=query", strings.NewReader("id=body"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := r.ParseForm(); err != nil {
		t.Fatal(err)
	}
	value, err := httpguard.FormField(r, "id", func() ([]byte, error) { return nil, errors.New("read twice") })
	if value != "body" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
}

func TestBodyOfAnotherTypeIsNotRead(t *testing.T) {
	read := func() ([]byte, error) {
		t.Error("it was read")
		return nil, nil
	}
	for _, header := range []http.Header{
		{},
		{"Content-Type": {"text/plain"}},
		{"Content-Type": {";;"}},
		{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
	} {
		if _, err := httpguard.BodyField(header, "id", read); !errors.Is(err, key.ErrInvalid) {
			t.Errorf("%v: JSON: got %v", header, err)
		}
		if _, err := httpguard.FormField(&http.Request{Header: header}, "id", read); !errors.Is(err, key.ErrInvalid) {
			t.Errorf("%v: form: got %v", header, err)
		}
	}
}

// FuzzBodyField: whatever makes the key is what a handler's struct gets.
func FuzzBodyField(f *testing.F) {
	for _, seed := range []string{
		`{"user":{"id":1}}`, `{"user":{"id":"x"},"id":2}`, `{"user":{"id":1,"ID":2}}`, `{"USER":{"id":2},"user":{"id":1}}`,
		`{"user":{"\u0069d":true}}`, `{"user":{"id":-0}}`, "{\"u\u017fer\":{\"id\":2},\"user\":{\"id\":1}}", `{"user":null,"user":{"id":3}}`,
	} {
		f.Add([]byte(seed))
	}
	header := http.Header{"Content-Type": {"application/json"}}
	f.Fuzz(func(t *testing.T, text []byte) {
		locked, err := httpguard.BodyField(header, "user.id", func() ([]byte, error) { return text, nil })
		if err != nil {
			return
		}
		var bound struct {
			User struct {
				ID json.RawMessage `json:"id"`
			} `json:"user"`
		}
		if err := json.Unmarshal(text, &bound); err != nil {
			t.Fatalf("locked %q of a text that does not bind: %v", locked, err)
		}
		if id := bytes.TrimSpace(bound.User.ID); string(id) == locked && !strings.ContainsAny(locked, `."eE`) {
			return // an integer or a boolean, as it is written
		}
		var value string
		if err := json.Unmarshal(bound.User.ID, &value); err != nil && locked != "true" && locked != "false" || err == nil && value != locked {
			t.Fatalf("locked %q, bound %s", locked, bound.User.ID)
		}
	})
}

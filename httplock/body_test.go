package httplock_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/httplock"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

func TestBodyFieldsThatMakeAKey(t *testing.T) {
	const refused = ""
	for title, test := range map[string]struct{ field, contentType, body, want string }{
		"text":                       {"body.userId", jsonType, `{"userId":"alice"}`, "lock:alice"},
		"integer":                    {"body.userId", jsonType, `{"userId":9007199254740993}`, "lock:9007199254740993"},
		"boolean":                    {"body.userId", jsonType, `{"userId":true}`, "lock:true"},
		"dotted path":                {"body.user.id", jsonType, `{"user":{"name":"x","id":7},"id":8}`, "lock:7"},
		"a kind of JSON":             {"body.userId", "application/merge-patch+json; charset=utf-8", `{"userId":1}`, "lock:1"},
		"missing":                    {"body.userId", jsonType, `{"other":1}`, refused},
		"null":                       {"body.userId", jsonType, `{"userId":null}`, refused},
		"fraction":                   {"body.userId", jsonType, `{"userId":1.0}`, refused},
		"object":                     {"body.userId", jsonType, `{"userId":{}}`, refused},
		"twice":                      {"body.userId", jsonType, `{"userId":1,"userId":2}`, refused},
		"twice in another case":      {"body.userId", jsonType, `{"userId":1,"USERID":2}`, refused},
		"twice with the Kelvin sign": {"body.kind", jsonType, "{\"kind\":1,\"\u212aind\":2}", refused},
		"outer object twice":         {"body.user.id", jsonType, `{"user":{"id":1},"User":{"id":2}}`, refused},
		"second document":            {"body.userId", jsonType, `{"userId":1}{"userId":2}`, refused},
		"cut off":                    {"body.userId", jsonType, `{"userId":1`, refused},
		"JSON of another type":       {"body.userId", "text/plain", `{"userId":1}`, refused},
		"no body":                    {"body.userId", jsonType, ``, refused},
		"form field":                 {"form.userId", formType, "a=1&userId=4%32", "lock:42"},
		"form field missing":         {"form.userId", formType, "a=1", refused},
		"form field twice":           {"form.userId", formType, "userId=1&userId=2", refused},
		"form badly escaped":         {"form.userId", formType, "userId=1&b=%zz", refused},
		"form of another type":       {"form.userId", jsonType, "userId=1", refused},
	} {
		t.Run(title, func(t *testing.T) {
			mux := on("POST /", func(w http.ResponseWriter, r *http.Request) {
				if text, err := io.ReadAll(r.Body); string(text) != test.body || err != nil {
					t.Errorf("the handler reads %q, %v", text, err)
				}
				tellKey(w, r)
			}, httplock.New(guardtest.Guard(t), "lock:<"+test.field+">"))
			w := guardtest.Send(mux, "POST", "/?userId=query", test.body, "Content-Type", test.contentType)
			switch {
			case test.want == refused:
				if w.Code != http.StatusBadRequest || guardtest.Code(t, w) != "LOCK_KEY_INVALID" {
					t.Errorf("got %d %s, want it refused", w.Code, w.Body)
				}
			case w.Code != http.StatusCreated || w.Body.String() != test.want:
				t.Errorf("got %d %s, want %s", w.Code, w.Body, test.want)
			}
		})
	}
}

func TestHandlersReadTheBodyInEveryStyle(t *testing.T) {
	g := guardtest.Guard(t)
	form := func(r *http.Request) error {
		if r.PostFormValue("userId") != "42" || r.FormValue("note") != "n" {
			return errors.New("the form is " + r.Form.Encode())
		}
		return nil
	}
	decode := func(r *http.Request) error {
		var order struct{ UserID int }
		err := errors.Join(json.NewDecoder(r.Body).Decode(&order), r.Body.Close())
		if err == nil && order.UserID != 42 {
			err = errors.New("another order")
		}
		return err
	}
	parseBefore := before(func(r *http.Request) *http.Request { _ = r.ParseForm(); return r })
	for title, test := range map[string]struct {
		contentType, body string
		read              func(*http.Request) error
		chain             []middleware
	}{
		"JSON":                {jsonType, `{"userId":42}`, decode, []middleware{httplock.New(g, "lock:<body.userId>")}},
		"two keys":            {jsonType, `{"userId":42}`, decode, []middleware{httplock.New(g, "lock:a:<body.userId>"), httplock.New(g, "lock:b:<body.userId>")}},
		"two variables":       {jsonType, `{"userId":42,"n":1}`, decode, []middleware{httplock.New(g, "lock:a:<body.userId>:<body.n>")}},
		"preread":             {jsonType, `{"userId":42}`, decode, []middleware{httplock.New(g, "lock:x", httplock.WithPrereadBody(100))}},
		"form":                {formType, "userId=42&note=n", form, []middleware{httplock.New(g, "lock:<form.userId>")}},
		"form, parsed before": {formType, "userId=42&note=n", form, []middleware{parseBefore, httplock.New(g, "lock:<form.userId>")}},
	} {
		t.Run(title, func(t *testing.T) {
			mux := on("POST /", func(_ http.ResponseWriter, r *http.Request) {
				if err := test.read(r); err != nil {
					t.Error(err)
				}
			}, test.chain...)
			if w := guardtest.Send(mux, "POST", "/?userId=query", test.body, "Content-Type", test.contentType); w.Code != http.StatusOK {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// watch is a middleware that tells of the first read of the body.
func watch(onRead func()) middleware {
	return before(func(r *http.Request) *http.Request {
		r = r.WithContext(r.Context())
		r.Body = guardtest.WatchRead(r.Body, onRead)
		return r
	})
}

func TestBodyThatIsNotNeededIsLeftAlone(t *testing.T) {
	mux := on("POST /", tellKey, watch(func() { t.Error("the body was read") }), httplock.New(guardtest.Guard(t), "lock:x"))
	if w := guardtest.Send(mux, "POST", "/", "text"); w.Code != http.StatusCreated {
		t.Errorf("got %d", w.Code)
	}
}

func TestBodyThatIsTooLargeIsRefusedBeforeTheHandler(t *testing.T) {
	const limit = 20
	fits := `{"userId":12345678} `
	large := fits + " "
	for title, test := range map[string]struct {
		body    string
		chunked bool
		want    int
	}{
		"at the limit":                  {fits, false, http.StatusCreated},
		"at the limit, size unknown":    {fits, true, http.StatusCreated},
		"above the limit":               {large, false, http.StatusRequestEntityTooLarge},
		"above the limit, size unknown": {large, true, http.StatusRequestEntityTooLarge},
	} {
		for option, opts := range map[string][]httplock.Option{
			"for the key": {httplock.WithMaxBody(limit)}, "preread": {httplock.WithPrereadBody(limit)},
		} {
			t.Run(title+", "+option, func(t *testing.T) {
				server := httptest.NewServer(on("POST /", tellKey, httplock.New(guardtest.Guard(t), "lock:<body.userId>", opts...)))
				defer server.Close()
				var body io.Reader = strings.NewReader(test.body)
				if test.chunked {
					body = struct{ io.Reader }{body}
				}
				response, err := server.Client().Post(server.URL, jsonType, body)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode != test.want {
					t.Errorf("got %s", response.Status)
				}
			})
		}
	}
}

func TestBodyIsReadBeforeTheLockIsTaken(t *testing.T) {
	for title, test := range map[string]struct {
		template string
		opts     []httplock.Option
	}{
		"because the key needs it":        {"lock:stock:<path.id>:<body.userId>", nil},
		"because the key may not need it": {"lock:stock:<path.id>:42", []httplock.Option{httplock.WithPrereadBody(1000)}},
	} {
		t.Run(title, func(t *testing.T) {
			g := guardtest.Guard(t)
			read := false
			mux := on("POST /{id}", tellKey, watch(func() {
				read = true
				if guardtest.IsHeld(t, g, "lock:stock:7:42") {
					t.Error("held while the client sends")
				}
			}), httplock.New(g, test.template, test.opts...))
			w := guardtest.Send(mux, "POST", "/7", `{"userId":42}`, "Content-Type", jsonType)
			if !read || w.Body.String() != "lock:stock:7:42" {
				t.Errorf("got %d %s, body read: %v", w.Code, w.Body, read)
			}
		})
	}
}

func TestSlowBodyDoesNotHoldUpAnotherRequest(t *testing.T) {
	g := guardtest.Guard(t)
	reading := make(chan struct{}, 100)
	server := httptest.NewServer(on("POST /{id}", tellKey, watch(func() { reading <- struct{}{} }),
		httplock.New(g, "lock:<id>", httplock.WithPrereadBody(1000))))
	defer server.Close()
	slow, finish := io.Pipe()
	answer := make(chan int, 1)
	go func() {
		response, err := server.Client().Post(server.URL+"/1", "text/plain", slow)
		if err != nil {
			answer <- 0
			return
		}
		_ = response.Body.Close()
		answer <- response.StatusCode
	}()
	guardtest.Receive(t, reading, "the start of the slow body")
	if status, _, _ := exchange(t, server, "/1"); status != http.StatusCreated {
		t.Errorf("the quick one got %d", status)
	}
	_ = finish.Close()
	if code := guardtest.Receive(t, answer, "the answer to the slow one"); code != http.StatusCreated {
		t.Errorf("the slow one got %d", code)
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	for title, test := range map[string]struct {
		leaves bool
		want   int
	}{
		"is refused":                         {false, http.StatusBadRequest},
		"is not answered if the client left": {true, 499},
	} {
		for option, opts := range map[string][]httplock.Option{
			"for the key": nil, "preread": {httplock.WithPrereadBody(100)},
		} {
			t.Run(title+", "+option, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				mux := on("POST /", runs(t), before(func(r *http.Request) *http.Request {
					r = r.WithContext(ctx)
					r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"userId":4`), readerFunc(func() error {
						if test.leaves {
							cancel()
						}
						return io.ErrUnexpectedEOF
					})))
					r.ContentLength = -1
					return r
				}), httplock.New(guardtest.Guard(t), "lock:<body.userId>", opts...))
				w := guardtest.Send(mux, "POST", "/", "", "Content-Type", jsonType)
				if w.Code != test.want || test.leaves != (w.Body.Len() == 0) {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

type readerFunc func() error

func (f readerFunc) Read([]byte) (int, error) { return 0, f() }

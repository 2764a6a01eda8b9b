package httpsuite

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
)

// bodies are the tests of keys that are made of bodies, and of bodies that are read
// before the lock is taken.
type bodies struct{ Framework }

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

func (f *bodies) TestFieldsThatMakeAKey(t *testing.T) {
	for title, test := range map[string]struct{ field, contentType, body, want string }{
		"JSON":                  {"body.userId", jsonType, `{"userId":"alice"}`, "lock:alice"},
		"dotted path":           {"body.user.id", jsonType, `{"user":{"name":"x","id":7},"id":8}`, "lock:7"},
		"a kind of JSON":        {"body.userId", "application/merge-patch+json; charset=utf-8", `{"userId":1}`, "lock:1"},
		"JSON field missing":    {"body.userId", jsonType, `{"other":1}`, badKey},
		"JSON field twice":      {"body.userId", jsonType, `{"userId":1,"USERID":2}`, badKey},
		"JSON of another type":  {"body.userId", "text/plain", `{"userId":1}`, badKey},
		"no JSON":               {"body.userId", jsonType, ``, badKey},
		"JSON cut off":          {"body.userId", jsonType, `{"userId":1`, badKey},
		"large integer":         {"body.userId", jsonType, `{"userId":9007199254740993}`, badKey},
		"form":                  {"form.userId", formType, "a=1&userId=4%32", "lock:42"},
		"form with a charset":   {"form.userId", formType + "; charset=utf-8", "userId=42", "lock:42"},
		"form field missing":    {"form.userId", formType, "a=1", badKey},
		"form field twice":      {"form.userId", formType, "userId=1&userId=2", badKey},
		"form badly escaped":    {"form.userId", formType, "userId=1&b=%zz", badKey},
		"form with a semicolon": {"form.userId", formType, "userId=1;userId=2", badKey},
		"form of another type":  {"form.userId", jsonType, "userId=1", badKey},
		"multipart form":        {"form.userId", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"userId\"\r\n\r\n1\r\n--x--\r\n", badKey},
	} {
		t.Run(title, func(t *testing.T) {
			r := f.on("POST", "/x", func(w http.ResponseWriter, r *http.Request) {
				if text, err := io.ReadAll(r.Body); string(text) != test.body || err != nil {
					t.Errorf("the handler reads %q, %v", text, err)
				}
				tellKey(w, r)
			}, f.layer(t, guardtest.Guard(t), "lock:<"+test.field+">"))
			w := guardtest.Send(r, "POST", "/x?userId=query", test.body, "Content-Type", test.contentType)
			expect(t, w, statusOf(test.want), test.want)
		})
	}
}

// What a handler makes of a body depends on headers that come once and are plain.
func (f *bodies) TestBodyIsOnlyReadAsWhatItSaysItIs(t *testing.T) {
	const plain, coding = "Content-Type", "Content-Encoding"
	for title, test := range map[string]struct {
		headers []string
		want    string
	}{
		"in capitals":          {[]string{plain, "Application/JSON; charset=utf-8"}, "lock:1"},
		"not encoded":          {[]string{plain, jsonType, coding, "identity"}, "lock:1"},
		"compressed":           {[]string{plain, jsonType, coding, "gzip"}, badKey},
		"two encodings":        {[]string{plain, jsonType, coding, "identity", coding, "gzip"}, badKey},
		"encodings in a list":  {[]string{plain, jsonType, coding, "identity, gzip"}, badKey},
		"two types":            {[]string{plain, jsonType, plain, formType}, badKey},
		"the same type twice":  {[]string{plain, jsonType, plain, jsonType}, badKey},
		"no type":              {nil, badKey},
		"an unreadable type":   {[]string{plain, ";;"}, badKey},
		"an unreadable option": {[]string{plain, jsonType + "; ="}, badKey},
	} {
		t.Run(title, func(t *testing.T) {
			if strings.Contains(title, "two") || strings.Contains(title, "twice") {
				f.needs(t, TwoTypes)
			}
			r := f.on("POST", "/x", tellKey, f.layer(t, guardtest.Guard(t), "lock:<body.userId>"))
			expect(t, guardtest.Send(r, "POST", "/x", `{"userId":1}`, test.headers...), statusOf(test.want), test.want)
		})
	}
}

// The form of net/http ignores the bodies of other methods: the lock and the
// handler would see different users.
func (f *bodies) TestFormOfAMethodThatHasNoneIsRefused(t *testing.T) {
	for _, method := range []string{"GET", "DELETE"} {
		r := f.on(method, "/x", refused(t), f.layer(t, guardtest.Guard(t), "lock:<form.userId>"))
		w := guardtest.Send(r, method, "/x?userId=2", "userId=1", "Content-Type", formType)
		expect(t, w, http.StatusBadRequest, badKey)
	}
	for _, method := range []string{"POST", "PUT", "PATCH"} {
		r := f.on(method, "/x", func(w http.ResponseWriter, r *http.Request) {
			if got := r.FormValue("userId"); got != "1" {
				t.Errorf("%s: the handler sees %q", method, got)
			}
			tellKey(w, r)
		}, f.layer(t, guardtest.Guard(t), "lock:<form.userId>"))
		w := guardtest.Send(r, method, "/x?userId=2", "userId=1", "Content-Type", formType)
		expect(t, w, http.StatusCreated, "lock:1")
	}
}

// Above 10 MiB net/http parses no form, and its FormValue finds the query.
func (f *bodies) TestFormThatNetHTTPDoesNotParseIsRefused(t *testing.T) {
	const parsed = 10 << 20
	r := f.on("POST", "/x", func(w http.ResponseWriter, r *http.Request) {
		if got := r.FormValue("userId"); got != "1" {
			t.Errorf("the handler sees %q", got)
		}
		tellKey(w, r)
	}, f.layer(t, guardtest.Guard(t), "lock:<form.userId>", httpguard.WithMaxBody(2*parsed)))
	body := "userId=1&pad="
	body += strings.Repeat("a", parsed-len(body))
	expect(t, guardtest.Send(r, "POST", "/x?userId=2", body, "Content-Type", formType), http.StatusCreated, "lock:1")
	expect(t, guardtest.Send(r, "POST", "/x?userId=2", body+"a", "Content-Type", formType), http.StatusRequestEntityTooLarge, badKey)
}

func (f *bodies) TestHandlersReadTheBodyInEveryStyle(t *testing.T) {
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
	parse := f.before(func(r *http.Request) *http.Request { _ = r.ParseForm(); return r })
	one := func(text string, opts ...httpguard.Option) Layer { return f.layer(t, g, text, opts...) }
	for title, test := range map[string]struct {
		contentType, body string
		read              func(*http.Request) error
		layers            []Layer
	}{
		"JSON":                {jsonType, `{"userId":42}`, decode, []Layer{one("lock:<body.userId>")}},
		"two keys":            {jsonType, `{"userId":42}`, decode, []Layer{one("lock:a:<body.userId>", httpguard.WithRule("lock:b:<body.userId>"))}},
		"two variables":       {jsonType, `{"userId":42,"n":1}`, decode, []Layer{one("lock:a:<body.userId>:<body.n>")}},
		"not needed":          {jsonType, `{"userId":42}`, decode, []Layer{one("lock:x")}},
		"streamed":            {jsonType, `{"userId":42}`, decode, []Layer{one("lock:x", httpguard.WithStreamedBody())}},
		"form":                {formType, "userId=42&note=n", form, []Layer{one("lock:<form.userId>")}},
		"form, parsed before": {formType, "userId=42&note=n", form, []Layer{parse, one("lock:<form.userId>")}},
	} {
		t.Run(title, func(t *testing.T) {
			if title == "form, parsed before" {
				f.needs(t, Requests)
			}
			r := f.on("POST", "/x", func(w http.ResponseWriter, r *http.Request) {
				if err := test.read(r); err != nil {
					t.Error(err)
				}
				w.WriteHeader(http.StatusCreated)
			}, test.layers...)
			expect(t, guardtest.Send(r, "POST", "/x?userId=query", test.body, "Content-Type", test.contentType), http.StatusCreated, "")
		})
	}
}

// onDisk returns a multipart form with a file, and its type.
func onDisk(t testing.TB) (contentType, body string) {
	t.Helper()
	var form strings.Builder
	w := multipart.NewWriter(&form)
	file, err := w.CreateFormFile("file", "a.bin")
	if err == nil {
		_, err = file.Write(make([]byte, 100<<10))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), form.String()
}

// upload parses the form of r, and returns where its file is on disk.
func upload(t testing.TB, r *http.Request) string {
	t.Helper()
	if err := r.ParseMultipartForm(1); err != nil {
		t.Fatal(err)
	}
	file, err := r.MultipartForm.File["file"][0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	return file.(*os.File).Name()
}

// A server removes the files of the request that it made, not those of a copy.
func (f *bodies) TestUploadedFilesDoNotOutliveTheirRequest(t *testing.T) {
	f.needs(t, Requests)
	for title, opts := range map[string][]httpguard.Option{"read": nil, "streamed": {httpguard.WithStreamedBody()}} {
		t.Run(title, func(t *testing.T) {
			contentType, body := onDisk(t)
			name := ""
			r := f.on("POST", "/x", func(_ http.ResponseWriter, r *http.Request) { name = upload(t, r) },
				f.layer(t, guardtest.Guard(t), "lock:x", opts...))
			guardtest.Send(r, "POST", "/x", body, "Content-Type", contentType)
			if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q is still there: %v", name, err)
			}
		})
	}
}

// Nor are they those of a form that a source has parsed, whether or not there is a lock.
func (f *bodies) TestUploadedFilesThatASourceParsedDoNotOutliveTheirRequest(t *testing.T) {
	for title, busy := range map[string]bool{"free": false, "busy": true} {
		t.Run(title, func(t *testing.T) {
			g := guardtest.Guard(t)
			if busy {
				guardtest.Hold(t, g, "lock:a")
			}
			contentType, body := onDisk(t)
			name := ""
			source := func(q httpguard.Request) (string, error) { name = upload(t, q.HTTP()); return "a", nil }
			r := f.on("POST", "/x", tellKey, f.layer(t, g, "lock:<file>", httpguard.WithVar("file", source)))
			guardtest.Send(r, "POST", "/x", body, "Content-Type", contentType)
			if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q is still there: %v", name, err)
			}
		})
	}
}

// Files of a form that was parsed in front of the lock are not the lock's.
func (f *bodies) TestUploadedFilesOfOthersStay(t *testing.T) {
	f.needs(t, Requests)
	contentType, body := onDisk(t)
	name := ""
	r := f.on("POST", "/x", tellKey, f.before(func(r *http.Request) *http.Request {
		name = upload(t, r)
		t.Cleanup(func() { _ = r.MultipartForm.RemoveAll() })
		return r
	}), f.layer(t, guardtest.Guard(t), "lock:x"))
	expect(t, guardtest.Send(r, "POST", "/x", body, "Content-Type", contentType), http.StatusCreated, "lock:x")
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}

// watch is a layer that reports each read of the body.
func (f *bodies) watch(onRead func()) Layer {
	return f.before(func(r *http.Request) *http.Request {
		r = r.WithContext(r.Context())
		r.Body = guardtest.WatchRead(r.Body, onRead)
		return r
	})
}

func (f *bodies) TestBodyIsReadBeforeTheLockIsTaken(t *testing.T) {
	f.needs(t, Requests)
	for _, text := range []string{"lock:stock:<path.id>:<body.userId>", "lock:stock:<path.id>:42"} {
		g := guardtest.Guard(t)
		read := false
		r := f.on("POST", "/{id}", tellKey, f.watch(func() {
			read = true
			if guardtest.IsHeld(t, g, "lock:stock:7:42") {
				t.Error("held while the client sends")
			}
		}), f.layer(t, g, text))
		w := guardtest.Send(r, "POST", "/7", `{"userId":42}`, "Content-Type", jsonType)
		expect(t, w, http.StatusCreated, "lock:stock:7:42")
		if !read {
			t.Error("the body was not read")
		}
	}
}

func (f *bodies) TestStreamedBodyIsLeftToTheHandler(t *testing.T) {
	f.needs(t, Requests)
	r := f.on("POST", "/x", tellKey, f.watch(func() { t.Error("the body was read") }),
		f.layer(t, guardtest.Guard(t), "lock:x", httpguard.WithStreamedBody()))
	expect(t, guardtest.Send(r, "POST", "/x", "a body"), http.StatusCreated, "lock:x")
}

func (f *bodies) TestBodyThatIsTooLargeIsRefusedBeforeTheHandler(t *testing.T) {
	const limit = 20
	fits := `{"userId":12345678} `
	for title, test := range map[string]struct {
		body    string
		chunked bool
		want    int
	}{
		"at the limit":                  {fits, false, http.StatusCreated},
		"at the limit, size unknown":    {fits, true, http.StatusCreated},
		"above the limit":               {fits + " ", false, http.StatusRequestEntityTooLarge},
		"above the limit, size unknown": {fits + " ", true, http.StatusRequestEntityTooLarge},
	} {
		for _, text := range []string{"lock:<body.userId>", "lock:x"} {
			t.Run(title+", "+text, func(t *testing.T) {
				server := httptest.NewServer(f.on("POST", "/x", tellKey, f.layer(t, guardtest.Guard(t), text, httpguard.WithMaxBody(limit))))
				defer server.Close()
				var body io.Reader = strings.NewReader(test.body)
				if test.chunked {
					body = struct{ io.Reader }{body}
				}
				response, err := server.Client().Post(server.URL+"/x", jsonType, body)
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

func (f *bodies) TestDefaultLimitIsOneMebibyte(t *testing.T) {
	r := f.on("POST", "/x", tellKey, f.layer(t, guardtest.Guard(t), "lock:<body.userId>"))
	body := `{"userId":1}` + strings.Repeat(" ", httpguard.DefaultMaxBody-len(`{"userId":1}`))
	expect(t, guardtest.Send(r, "POST", "/x", body, "Content-Type", jsonType), http.StatusCreated, "lock:1")
	expect(t, guardtest.Send(r, "POST", "/x", body+" ", "Content-Type", jsonType), http.StatusRequestEntityTooLarge, badKey)
}

// A body that says that it's too large is refused without being read.
func (f *bodies) TestBodyThatSaysItIsTooLargeIsNotRead(t *testing.T) {
	f.needs(t, Requests)
	for template, opts := range map[string][]httpguard.Option{
		"lock:x":        nil,
		"lock:<form.u>": {httpguard.WithStreamedBody()}, // the key needs it
		"lock:<body.u>": {httpguard.WithStreamedBody()},
	} {
		contentType := formType
		if strings.Contains(template, "body") {
			contentType = jsonType
		}
		r := f.on("POST", "/x", refused(t), f.watch(func() { t.Error("the body was read") }),
			f.layer(t, guardtest.Guard(t), template, append(opts, httpguard.WithMaxBody(5))...))
		expect(t, guardtest.Send(r, "POST", "/x", "more than five", "Content-Type", contentType), http.StatusRequestEntityTooLarge, badKey)
	}
}

// Clients that send half of a body and stop hold no lock, whatever the key needs.
func (f *bodies) TestHalfSentBodiesHoldNoLock(t *testing.T) {
	f.needs(t, Streams)
	g := guardtest.Guard(t)
	const slow = 29
	reading := make(chan struct{}, 100*slow)
	server := httptest.NewServer(f.on("POST", "/{id}", tellKey, f.watch(func() { reading <- struct{}{} }), f.layer(t, g, "lock:<id>")))
	t.Cleanup(server.Close) // behind the connections
	for range slow {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		guardtest.Receive(t, reading, "the start of a slow body")
	}
	for range 3 {
		response, err := server.Client().Post(server.URL+"/1", "text/plain", strings.NewReader("quick"))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusCreated {
			t.Errorf("a quick request got %s", response.Status)
		}
	}
}

func (f *bodies) TestBodyThatBreaksOff(t *testing.T) {
	f.needs(t, Requests)
	slow := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded} // as of a server with a ReadTimeout
	for title, tt := range map[string]struct {
		cancel bool
		err    error
		status int
		code   string
	}{
		"is refused":                       {false, io.ErrUnexpectedEOF, http.StatusBadRequest, badKey},
		"is canceled with its request":     {true, io.ErrUnexpectedEOF, http.StatusServiceUnavailable, "LOCK_CANCELED"},
		"as it comes too slowly times out": {false, slow, http.StatusRequestTimeout, "LOCK_CANCELED"},
	} {
		for _, text := range []string{"lock:<body.userId>", "lock:x"} {
			t.Run(title+", "+text, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := f.on("POST", "/x", refused(t), f.before(func(r *http.Request) *http.Request {
					r = r.WithContext(ctx)
					r.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"userId":4`), readerFunc(func() error {
						if tt.cancel {
							cancel()
						}
						return tt.err
					})))
					r.ContentLength = -1
					return r
				}), f.layer(t, guardtest.Guard(t), text))
				w := guardtest.Send(r, "POST", "/x", "", "Content-Type", jsonType)
				expect(t, w, tt.status, tt.code)
			})
		}
	}
}

type readerFunc func() error

func (f readerFunc) Read([]byte) (int, error) { return 0, f() }

// A source of the application's may read the body itself.
func (f *bodies) TestSourceThatReadsTheBodyLeavesItToOthers(t *testing.T) {
	const text = `{"userId":"7"}`
	decode := func(q httpguard.Request) (string, error) {
		var order struct{ UserID string }
		err := json.NewDecoder(q.HTTP().Body).Decode(&order)
		return order.UserID, err
	}
	work := func(w http.ResponseWriter, r *http.Request) {
		if got, err := io.ReadAll(r.Body); string(got) != text || err != nil {
			t.Errorf("the handler reads %q, %v", got, err)
		}
		tellKey(w, r)
	}
	g := guardtest.Guard(t)
	a, b := httpguard.WithVar("a", decode), httpguard.WithVar("b", decode)
	for title, opts := range map[string][]httpguard.Option{"read": nil, "streamed": {httpguard.WithStreamedBody()}} {
		for want, layer := range map[string]Layer{
			"lock:7:7": f.layer(t, g, "lock:<a>:<b>", append(opts, a, b)...),
			"lock:7":   f.layer(t, g, "lock:<body.userId>", opts...),
			"7":        f.layer(t, g, "lock:order", append(opts, httpguard.WithKeyFunc(decode))...),
		} {
			t.Run(title+", "+want, func(t *testing.T) {
				expect(t, guardtest.Send(f.on("POST", "/x", work, layer), "POST", "/x", text, "Content-Type", jsonType), http.StatusCreated, want)
			})
		}
	}
}

// A source that reads more than the limit makes no key, whatever it takes that for.
func (f *bodies) TestSourceThatReadsABodyThatIsTooLargeIsRefused(t *testing.T) {
	f.needs(t, Requests)
	careless := func(q httpguard.Request) (string, error) {
		text, err := io.ReadAll(q.HTTP().Body)
		if len(text) > 0 || err == nil {
			t.Errorf("the source reads %q, %v", text, err)
		}
		return "7", nil
	}
	for title, opts := range map[string][]httpguard.Option{
		"variable": {httpguard.WithVar("a", careless)}, "key func": {httpguard.WithKeyFunc(careless)},
	} {
		template := map[string]string{"variable": "lock:<a>", "key func": "lock:a"}[title]
		t.Run(title, func(t *testing.T) {
			r := f.on("POST", "/x", refused(t), f.before(func(r *http.Request) *http.Request {
				r = r.WithContext(r.Context())
				r.ContentLength = -1
				return r
			}), f.layer(t, guardtest.Guard(t), template, append(opts, httpguard.WithStreamedBody(), httpguard.WithMaxBody(5))...))
			expect(t, guardtest.Send(r, "POST", "/x", "more than five"), http.StatusRequestEntityTooLarge, badKey)
		})
	}
}

// A body that no source reads is the one that came.
func (f *bodies) TestStreamedBodyThatNoSourceReadsIsAsItCame(t *testing.T) {
	f.needs(t, Requests)
	var came io.ReadCloser
	r := f.on("POST", "/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.Body != came {
			t.Errorf("the handler gets %T", r.Body)
		}
		tellKey(w, r)
	}, f.before(func(r *http.Request) *http.Request { came = r.Body; return r }), f.layer(t, guardtest.Guard(t), "lock:<id>", httpguard.WithStreamedBody()))
	expect(t, guardtest.Send(r, "POST", "/7", "a body"), http.StatusCreated, "lock:7")
}

func (f *bodies) TestRequestWithoutABodyIsNoPanic(t *testing.T) {
	r := f.on("POST", "/x", refused(t), f.layer(t, guardtest.Guard(t), "lock:<body.id>"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", jsonType)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request)
	expect(t, w, http.StatusBadRequest, badKey)
}

package httpguard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/guard/guardtest"
	"github.com/redlatch/redlatch/core/guard/httpguard"
	"github.com/redlatch/redlatch/core/key"
)

// field is a field of a JSON body.
func field(t testing.TB, path, body string) (string, error) {
	t.Helper()
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return serve(t, httpguard.Body(path), r)
}

func TestFieldsOfJSON(t *testing.T) {
	const refused = ""
	for title, test := range map[string]struct{ path, body, want string }{
		"string":                            {"userId", `{"userId":"alice"}`, "alice"},
		"string with an escape":             {"userId", `{"userId":"\u0061lice"}`, "alice"},
		"string with a quote":               {"userId", `{"x":"\"}{","userId":"a\"b\\"}`, `a"b\`},
		"integer":                           {"userId", `{"userId":42}`, "42"},
		"negative integer":                  {"userId", `{"userId":-42}`, "-42"},
		"largest integer of a float":        {"userId", `{"userId":9007199254740991}`, "9007199254740991"},
		"smallest integer of a float":       {"userId", `{"userId":-9007199254740991}`, "-9007199254740991"},
		"integer beyond float precision":    {"userId", `{"userId":9007199254740993}`, refused},
		"integer beyond it, but exact":      {"userId", `{"userId":9007199254740992}`, refused},
		"negative integer beyond it":        {"userId", `{"userId":-9007199254740993}`, refused},
		"integer beyond 64 bits":            {"userId", `{"userId":123456789012345678901234567890}`, refused},
		"the same as a string":              {"userId", `{"userId":"9007199254740993"}`, "9007199254740993"},
		"boolean":                           {"userId", `{"userId":true}`, "true"},
		"dotted path":                       {"user.id", `{"user":{"name":"x","id":7},"id":8}`, "7"},
		"behind all kinds of values":        {"user.id", `{"a":[1,{"user":{"id":1}},"]"],"b":{"c":{}},"d":null,"e":-1.5e3,"user":{"x":[[]],"id":7}}`, "7"},
		"space around":                      {"userId", " {\n\t\"userId\" :\r 42 } \n", "42"},
		"space in front of a comma":         {"b", "{\"a\" : [ 1 , 2 ] , \"b\" : 42\n}", "42"},
		"other members that look alike":     {"userId", `{"a":1,"A":2,"userId":3}`, "3"},
		"name written with an escape":       {"userId", `{"user\u0049d":42}`, "42"},
		"missing":                           {"userId", `{"other":1}`, refused},
		"missing in an empty object":        {"userId", `{}`, refused},
		"empty string":                      {"userId", `{"userId":""}`, refused},
		"null":                              {"userId", `{"userId":null}`, refused},
		"fraction":                          {"userId", `{"userId":1.0}`, refused},
		"exponent":                          {"userId", `{"userId":1e0}`, refused},
		"upper exponent":                    {"userId", `{"userId":1E0}`, refused},
		"minus zero":                        {"userId", `{"userId":-0}`, refused},
		"object":                            {"userId", `{"userId":{}}`, refused},
		"array":                             {"userId", `{"userId":[1]}`, refused},
		"half of a character":               {"userId", `{"userId":"\ud800"}`, refused},
		"bytes that are no character":       {"userId", "{\"userId\":\"a\xff\"}", refused},
		"path through a string":             {"user.id", `{"user":"id"}`, refused},
		"path through an array":             {"user.id", `{"user":[{"id":1}]}`, refused},
		"path through null":                 {"user.id", `{"user":null}`, refused},
		"not an object":                     {"userId", `[{"userId":1}]`, refused},
		"twice":                             {"userId", `{"userId":1,"userId":2}`, refused},
		"twice the same":                    {"userId", `{"userId":1,"userId":1}`, refused},
		"twice in another case":             {"userId", `{"userId":1,"USERID":2}`, refused},
		"twice, the other one first":        {"userId", `{"USERID":2,"userId":1}`, refused},
		"only in another case":              {"userId", `{"USERID":2}`, refused},
		"twice with the Kelvin sign":        {"kind", "{\"kind\":1,\"\u212aind\":2}", refused},
		"twice with the long s":             {"userId", "{\"userId\":1,\"u\u017ferId\":2}", refused},
		"twice, escaped":                    {"userId", `{"userId":1,"user\u0069d":2}`, refused},
		"outer object twice":                {"user.id", `{"user":{"id":1},"User":{"id":2}}`, refused},
		"inner member twice":                {"user.id", `{"user":{"id":1,"ID":2}}`, refused},
		"second document":                   {"userId", `{"userId":1}{"userId":2}`, refused},
		"something behind it":               {"userId", `{"userId":1} x`, refused},
		"cut off":                           {"userId", `{"userId":1`, refused},
		"cut off behind what is looked for": {"user.id", `{"user":{"id":1},"x"`, refused},
		"not JSON":                          {"userId", `userId=1`, refused},
		"no body":                           {"userId", ``, refused},
		"too deep":                          {"userId", strings.Repeat(`{"userId":`, 20_000) + "1" + strings.Repeat("}", 20_000), refused},
	} {
		t.Run(title, func(t *testing.T) {
			got, err := field(t, test.path, test.body)
			if test.want == refused && err == nil && got != "" || test.want != refused && (err != nil || got != test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if err != nil && guard.KindOf(err) != guard.BadKey {
				t.Errorf("got %v, which is not the request's fault", err)
			}
		})
	}
}

// Who sends a large number learns what to do.
func TestAnswersSayWhatIsWrongWithANumber(t *testing.T) {
	const beyond, spelled = "is an integer beyond 2^53", "is not written as it must be"
	for number, want := range map[string]string{
		"9007199254740993": beyond, "-9007199254740993": beyond, "123456789012345678901234567890": beyond, "1.0": spelled, "1e0": spelled, "-0": spelled,
	} {
		_, err := field(t, "id", `{"id":`+number+`}`)
		w := refuse(t, &guard.Error{Kind: guard.KindOf(err), Err: err})
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s, want %s", number, w.Code, w.Body, want)
		}
	}
}

// A large body costs no more than reading it a few times over, whatever is in it:
// it is read before any lock is taken.
func TestLargeJSONIsReadInLinearTime(t *testing.T) {
	const size = httpguard.DefaultMaxBody / 4
	fill := func(open, member, end string) string {
		return open + strings.Repeat(member, (size-len(open)-len(end))/len(member)) + end
	}
	for title, body := range map[string]string{
		"the same member again and again": fill(`{"a":1`, `,"a":1`, `}`),
		"another member":                  fill(`{"a":1`, `,"b":1`, `}`),
		"a member that looks alike":       fill(`{"b":1`, `,"\u0062":1`, `}`),
		"nested arrays":                   fill(`{"b":[1`, `,[[1]]`, `],"a":1}`),
		"a member with a slash":           fill(`{"b":1`, `,"\/":1`, `}`),
		"escapes":                         fill(`{"b":"`, `\u0061`, `","a":1}`),
		"blanks":                          fill(`{`, ` `, `"a":1}`),
	} {
		t.Run(title, func(t *testing.T) {
			// The shortest of some runs, as a busy machine interrupts most.
			valid, found := time.Hour, time.Hour
			for range 10 {
				valid = min(valid, duration(func() { json.Valid([]byte(body)) }))
				found = min(found, duration(func() { _, _ = field(t, "a", body) }))
				if found <= 40*valid+5*time.Millisecond {
					return
				}
			}
			t.Errorf("took %v, validating it %v", found, valid)
		})
	}
}

func duration(run func()) time.Duration {
	began := time.Now()
	run()
	return time.Since(began)
}

func TestSourceThatIsNoPartOfAMiddlewareHasNoBody(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{"a":1}`))
	r.Header.Set("Content-Type", "application/json")
	if _, err := httpguard.Body("a")(exchange{r: r}); !errors.Is(err, guard.ErrUnresolvable) {
		t.Errorf("got %v", err)
	}
}

// A tunnel ends when the handler ends it.
func TestWhatFollowsAConnectIsLeftToTheHandler(t *testing.T) {
	m, err := httpguard.New("httpguard", guardtest.Guard(t), "lock:x")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("CONNECT", "/", strings.NewReader("tunnel"))
	r.Body = guardtest.WatchRead(r.Body, func() { t.Error("the tunnel was read") })
	ran := false
	m.Serve(exchange{r: r, w: httptest.NewRecorder(), ran: func(*http.Request) { ran = true }})
	if !ran {
		t.Error("the handler did not run")
	}
}

// A client may make up methods on a route that takes any.
func TestMiddlewareGrowsWithRoutesAndNotWithRequests(t *testing.T) {
	m, err := httpguard.New("httpguard", guardtest.Guard(t), "lock:x")
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for i := range 100 {
		for _, method := range []string{"GET", "POST", "PURGE" + strings.Repeat("X", i)} {
			m.Serve(exchange{r: httptest.NewRequest(method, "/", nil), w: httptest.NewRecorder(), ran: func(*http.Request) { runs++ }})
		}
	}
	if plans := m.Plans(); plans != 2 || runs != 300 {
		t.Errorf("it keeps %d plans after %d requests", plans, runs)
	}
}

func TestFormThatWasParsedIsTheOneThatCounts(t *testing.T) {
	r := httptest.NewRequest("POST", "/?id=query", strings.NewReader("id=body"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := r.ParseForm(); err != nil {
		t.Fatal(err)
	}
	if value, err := serve(t, httpguard.Form("id"), r); value != "body" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
	if _, err := serve(t, httpguard.Form("no"), r); !errors.Is(err, key.ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// FuzzBody: whatever makes the key is what a handler gets, decoded into a struct or
// into any.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"user":{"id":1}}`, `{"user":{"id":"x"},"id":2}`, `{"user":{"id":1,"ID":2}}`, `{"USER":{"id":2},"user":{"id":1}}`,
		`{"user":{"\u0069d":true}}`, `{"user":{"id":-0}}`, "{\"u\u017fer\":{\"id\":2},\"user\":{\"id\":1}}", `{"user":null,"user":{"id":3}}`,
		`{"user":{"id":9007199254740993}}`, `{"user":{"id":"\ud800"}}`, `{"a":[{}, "}"],"user" : { "id" : "a\"b" } }`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		locked, err := field(t, "user.id", string(text))
		if err != nil {
			return
		}
		var bound struct {
			User struct {
				ID json.RawMessage `json:"id"`
			} `json:"user"`
		}
		var loose struct{ User struct{ ID any } }
		if err := errors.Join(json.Unmarshal(text, &bound), json.Unmarshal(text, &loose)); err != nil {
			t.Fatalf("locked %q of JSON that does not bind: %v", locked, err)
		}
		switch id := loose.User.ID.(type) {
		case string:
			if id != locked {
				t.Fatalf("locked %q, bound %q", locked, id)
			}
		case bool:
			if (locked == "true") != id {
				t.Fatalf("locked %q, bound %v", locked, id)
			}
		case float64:
			if raw := string(bytes.TrimSpace(bound.User.ID)); raw != locked || float64(int64(id)) != id || strings.ContainsAny(locked, ".eE") {
				t.Fatalf("locked %q, bound %s and %v", locked, raw, id)
			}
		default:
			t.Fatalf("locked %q, bound %v", locked, id)
		}
	})
}

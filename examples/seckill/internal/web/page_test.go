package web_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard"
	"github.com/redlatch/redlatch/core/memstore"
)

// get sends a request with headers, each as "Name: value".
func (s *shop) get(t *testing.T, path string, headers ...string) reply {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, request)
	return reply{status: recorder.Code, header: recorder.Header(), text: recorder.Body.String()}
}

func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	for path, kind := range map[string]string{"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"} {
		r := s.get(t, path)
		if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, r.status, r.header.Get("Content-Type"))
		}
		if foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+\.[a-z]`).FindString(r.text); foreign != "" {
			t.Errorf("%s refers to %s", path, foreign)
		}
	}
	csp := s.get(t, "/").header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("content security policy %q", csp)
	}
}

func TestThePageSpeaksTheLanguageOfItsReader(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	for _, tt := range []struct{ query, accept, want string }{
		{"", "", "en"},
		{"", "fr-FR,fr;q=0.9", "en"},
		{"", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"},
		{"", "zh", "zh-CN"},
		{"", "en-GB,en;q=0.9,zh;q=0.8", "en"},
		{"", "de, zh-Hans;q=0.5", "zh-CN"},
		{"?lang=en", "zh-CN", "en"},
		{"?lang=zh-CN", "en", "zh-CN"},
		{"?lang=%22%3E%3Cscript%3E", "zh-CN", "zh-CN"},
		{"", ";;q=,*", "en"},
	} {
		r := s.get(t, "/"+tt.query, "Accept-Language: "+tt.accept)
		if r.status != 200 || !strings.Contains(r.text, `<html lang="`+tt.want+`">`) || r.header.Get("Content-Language") != tt.want {
			t.Errorf("%q and %q: %d %s", tt.query, tt.accept, r.status, r.header.Get("Content-Language"))
		}
		if !strings.Contains(r.header.Get("Vary"), "Accept-Language") {
			t.Errorf("Vary: %q", r.header.Get("Vary"))
		}
	}
}

// Words that only one language has, or that the page needs and nobody wrote.
func TestThePageHasAllItsWordsInEachLanguage(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	files, err := fs.Glob(os.DirFS("page"), "*.json")
	if err != nil || len(files) != 2 {
		t.Fatalf("languages: %v, %v", files, err)
	}
	keys := make(map[string][]string)
	for _, file := range files {
		words := make(map[string]string)
		if err := json.Unmarshal([]byte(read(file)), &words); err != nil {
			t.Fatal(err)
		}
		keys[file] = slices.Sorted(maps.Keys(words))
		for key, word := range words {
			if strings.TrimSpace(word) == "" {
				t.Errorf("%s: %q is empty", file, key)
			}
		}
	}
	if !slices.Equal(keys[files[0]], keys[files[1]]) {
		t.Errorf("the languages have different words:\n%q\n%q", keys[files[0]], keys[files[1]])
	}
	for _, used := range regexp.MustCompile(`\.Words\.(\w+)|words\.(\w+)|words\["([^"]+)"\]`).FindAllStringSubmatch(read("page.html")+read("page.js")+read("stage.js"), -1) {
		if key := used[1] + used[2] + used[3]; !slices.Contains(keys[files[0]], key) {
			t.Errorf("nobody wrote %q", key)
		}
	}
}

// What an order may be answered with, by the lock and by the sale.
func TestEveryAnswerToAnOrderIsInTheManualAndHasAWordOnThePage(t *testing.T) {
	codes := []string{
		"UNAUTHENTICATED", "NOT_STARTED", "ENDED", "CROSS_ORIGIN", "VOUCHER_NOT_FOUND", "ALREADY_ORDERED",
		"SOLD_OUT", "REQUEST_TIMEOUT", "BODY_TOO_LARGE", "INTERNAL", "STORE_UNAVAILABLE",
	}
	for kind := guard.None + 1; kind.Code() != ""; kind++ {
		if kind != guard.Skipped { // such a rule is refused
			codes = append(codes, kind.Code())
		}
	}
	for _, file := range []string{"../../README.md", "page/en.json"} { // the languages have the same words
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codes {
			if !regexp.MustCompile("[`\"]" + code + "[`\"]").Match(text) {
				t.Errorf("%s lacks %s", file, code)
			}
		}
	}
}

func TestAGatewayNamesWhoOrdersOnThePage(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	for user, named := range map[string]bool{"": false, "ann": true, `a"><script>alert(1)</script>`: true, "two words": false, strings.Repeat("x", 65): false} {
		r := s.get(t, "/", "X-User-Id: "+user)
		if strings.Contains(r.text, " readonly>") != named || strings.Contains(r.text, `id="crowd"`) == named {
			t.Errorf("user %q, named %v:\n%s", user, named, r.text)
		}
		if strings.Contains(r.text, "alert(1)</script>") {
			t.Errorf("user %q is not escaped:\n%s", user, r.text)
		}
	}
}

func TestOtherSitesCanOnlyRead(t *testing.T) {
	s := openShop(t, memstore.New(), sqliteStore(t))
	path := "/api/vouchers/" + s.onSale(t, 5, -1, 1) + "/orders"
	send := func(method, path string, headers map[string]string) reply {
		request := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(draft("Half price", 1, hour(-1), hour(1))))
		request.Header.Set("X-User-Id", "ann")
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		recorder := httptest.NewRecorder()
		s.handler.ServeHTTP(recorder, request)
		r := reply{status: recorder.Code, header: recorder.Header(), text: recorder.Body.String()}
		_ = json.Unmarshal(recorder.Body.Bytes(), &r.body)
		return r
	}
	for _, foreign := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://elsewhere.example"}, {"Origin": "null"},
	} {
		wantProblem(t, send("POST", path, foreign), path, 403, "CROSS_ORIGIN")
		wantProblem(t, send("POST", "/api/vouchers", foreign), "/api/vouchers", 403, "CROSS_ORIGIN")
		if r := send("GET", "/api/vouchers", foreign); r.status != 200 {
			t.Errorf("reading: %d %s", r.status, r.text)
		}
	}
	if r := send("POST", "/api/vouchers", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://shop.example"}); r.status != 201 {
		t.Errorf("the page itself: %d %s", r.status, r.text)
	}
	if r := send("POST", path, nil); r.status != 201 {
		t.Errorf("a client that is no browser: %d %s", r.status, r.text)
	}
}

package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"golang.org/x/text/language"

	"github.com/redlatch/redlatch/examples/seckill/internal/voucher"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/page.html"))

// locale is a language of the page.
type locale struct {
	Tag, Name string
	Words     map[string]string
}

// locales are the languages of the page. The first is for readers of others.
var locales = []locale{
	{"en", "English", mustWords("page/en.json")},
	{"zh-CN", "中文", mustWords("page/zh-CN.json")},
}

var localeMatcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// mustWords reads the embedded words of a language. It panics if they are no JSON.
func mustWords(file string) (words map[string]string) {
	text, err := pageFiles.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &words)
	}
	if err != nil {
		panic(err) //nolint:forbidigo // Must: documented to panic
	}
	return words
}

// Stage is what the page shows above the sale, if there is one: see package stage.
type Stage struct {
	// Handler serves everything below [StagePath].
	Handler http.Handler
	// Links are addresses of lines of code below StagePath, by what they are about.
	Links map[string]string
}

// StagePath is where a stage is.
const StagePath = "/stage/"

// laneText is a lane as the page introduces it.
type laneText struct{ ID, Title, Text, Code string }

// pageData is what the template of the page needs.
type pageData struct {
	locale
	Locales []locale
	User    string
	Stage   *Stage
}

// Link is the address of a line of code.
func (p pageData) Link(name string) string {
	return strings.TrimPrefix(StagePath, "/") + p.Stage.Links[name]
}

// Lanes are the lanes of the stage.
func (p pageData) Lanes() (lanes []laneText) {
	for _, id := range []string{"nothing", "lock", "fence"} {
		lanes = append(lanes, laneText{id, p.Words["lane "+id], p.Words["about "+id], p.Link(id)})
	}
	return lanes
}

// showPage shows the page in the language of ?lang=, or in that of the browser.
//
// A gateway that authenticates says who looks, as it does with orders: the page
// then orders as this user, and has no stage. Without one, as in a demo, the page orders as
// anybody, puts vouchers on sale and sends a crowd.
func (s *site) showPage(c *gin.Context) {
	_, chosen := language.MatchStrings(localeMatcher, c.Query("lang"), c.GetHeader("Accept-Language"))
	data := pageData{locale: locales[chosen], Locales: locales, User: c.GetHeader(userHeader), Stage: s.stage}
	if voucher.IsUser(data.User) {
		data.Stage = nil
	} else {
		data.User = ""
	}
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, data); err != nil {
		fail(c, err)
		return
	}
	c.Header("Vary", "Accept-Language, "+userHeader)
	c.Header("Content-Language", locales[chosen].Tag)
	c.Header("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	c.Data(http.StatusOK, "text/html; charset=utf-8", page.Bytes())
}

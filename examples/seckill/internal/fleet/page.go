package fleet

import (
	"html/template"
	"net/http"
	"strconv"

	"golang.org/x/text/language"
)

// words are those of the page, by language: the first is for readers of others.
var words = []struct{ Lang, Title, About, Instance, State, Ready, Starting, Killed, Kill, Start, Sale string }{
	{
		"en", "Three instances",
		"Each is a process with its own locker, on one Redis and one database. Kill one while people order: a user whose order was under way is refused until the lease has run out, and then served by another.",
		"Instance", "State", "ready", "starts", "has ended", "Kill -9", "Start", "The sale",
	},
	{
		"zh-CN", "三个实例",
		"每个实例是一个独立进程，有自己的 locker，共用一个 Redis 和一个数据库。在有人下单时杀掉一个：正在处理的那位用户会被拒绝，直到租约到期，然后由另一个实例服务。",
		"实例", "状态", "就绪", "正在启动", "已结束", "Kill -9", "启动", "秒杀页面",
	},
}

var matcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="{{.Words.Lang}}">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>{{.Words.Title}} · redlatch</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/page.css"><script src="fleet.js" defer></script>
<body><main><section class="card wide">
<h1>{{.Words.Title}}</h1>
<p class="quiet">{{.Words.About}}</p>
<table><thead><tr><th scope="col">{{.Words.Instance}}</th><th scope="col">PID</th><th scope="col">{{.Words.State}}</th><td></td></tr></thead>
<tbody id="instances">{{range .Members}}<tr><th scope="row">{{.N}}</th><td>{{.PID}}</td><td>{{.State}}</td>
<td><form method="post" action="{{.N}}/{{.Do}}"><button>{{.Label}} {{.N}}</button></form></td></tr>{{end}}</tbody></table>
<p><a href="/">{{.Words.Sale}}</a></p>
</section></main></body></html>
`))

// script keeps the table fresh, and leaves a button that has the focus alone.
const script = `"use strict";
setInterval(async () => {
  const next = new DOMParser().parseFromString(await (await fetch("")).text(), "text/html").getElementById("instances");
  const now = document.getElementById("instances");
  if (next && next.innerHTML !== now.innerHTML) now.replaceChildren(...next.children);
}, 500);
`

// row is an instance on the page.
type row struct {
	N                int
	PID              string
	State, Do, Label string
}

func (f *Fleet) showPage(w http.ResponseWriter, r *http.Request) {
	_, chosen := language.MatchStrings(matcher, r.URL.Query().Get("lang"), r.Header.Get("Accept-Language"))
	said := words[chosen]
	data := struct {
		Words   any
		Members []row
	}{Words: said}
	for _, m := range f.members {
		pid := m.pid()
		one := row{m.n, strconv.Itoa(pid), said.Starting, "kill", said.Kill}
		switch {
		case pid == 0:
			one = row{m.n, "–", said.Killed, "start", said.Start}
		case m.ready.Load():
			one.State = said.Ready
		}
		data.Members = append(data.Members, one)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	_ = page.Execute(w, data) // the client has gone
}

func showScript(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write([]byte(script)) // the client has gone
}

// act kills an instance, or starts one that has ended.
func (f *Fleet) act(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 1 || n > Size {
		http.NotFound(w, r)
		return
	}
	m := f.members[n-1]
	switch r.PathValue("do") {
	case "kill":
		m.kill()
		f.log.InfoContext(r.Context(), "an instance was killed", "instance", n)
	case "start":
		if err := m.start(); err != nil {
			f.log.ErrorContext(r.Context(), "an instance doesn't start", "instance", n, "err", err)
			http.Error(w, "it doesn't start: see the log", http.StatusInternalServerError)
			return
		}
	default:
		http.NotFound(w, r)
		return
	}
	http.Redirect(w, r, "../", http.StatusSeeOther)
}

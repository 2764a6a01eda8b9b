"use strict";

const $ = id => document.getElementById(id);
const words = JSON.parse($("words").textContent);
const lang = document.documentElement.lang;
const number = new Intl.NumberFormat(lang);
const when = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" });

// The crowd: as many users, each with as many clicks, and as many at once. The
// browser has six connections to a service, and one is the stream of events.
const CROWD = { users: 200, clicks: 3, atOnce: 12 };

let stream = null, sale = null, last = null;
let chosen = new URLSearchParams(location.search).get("voucher") || "";

// set changes only what differs, so that screen readers speak of changes only.
function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
const said = code => words[code] ? `${code} · ${words[code]}` : code;

// The stream of the sale. A browser reconnects by itself, unless it was refused.
function connect() {
  stream?.close();
  stream = new EventSource("events?voucher=" + encodeURIComponent(chosen));
  stream.addEventListener("state", event => { const state = JSON.parse(event.data); connection("connected", state.away); show(state); });
  stream.addEventListener("away", event => connection("away", ["database", ...JSON.parse(event.data).away]));
  stream.addEventListener("error", event => {
    connection("connecting");
    if (event.target.readyState === EventSource.CLOSED) setTimeout(() => { if (event.target === stream) connect(); }, 2000);
  });
}
// connection says whether the page is live, and what behind it is away.
function connection(state, away = []) {
  const missing = [...new Set(away)].map(name => words[name + " away"] || name);
  $("connection").dataset.state = missing.length ? "away" : state;
  set($("connection"), missing.join(" · ") || words[state]);
}

function show(state) {
  sale = state.voucher;
  showSale(state.voucher, state.report);
  showChoice(state.vouchers);
  showLocks(state.locks);
  showAnswers(state.answers);
  for (const p of ["p50", "p99"]) {
    const ms = state.latency[p];
    set($(p), ms === null ? "–" : number.format(ms < 10 ? +ms.toFixed(1) : Math.round(ms)) + " ms");
  }
}
function showSale(v, r) {
  set($("name"), v ? v.title : words.empty);
  if (!v) { // what it showed is of another database
    for (const id of ["stock", "sold", "left", "buyers"]) set($(id), "–");
    for (const id of ["window", "rate"]) set($(id), "");
    $("progress").value = 0;
    $("promises").replaceChildren();
    return;
  }
  const now = Date.now(), begin = new Date(v.beginAt), end = new Date(v.endAt);
  const phase = now >= end ? "ended" : r.sold >= r.stock ? "sold out" : now < begin ? "starts" : "open since";
  set($("window"), phase === "sold out" ? words[phase] : words[phase] + " " + when.format(phase === "ended" ? end : begin));
  const at = performance.now(), since = last && last.id === v.id ? last : { orders: r.orders, at };
  if (at - since.at >= 900 || since !== last) {
    const rate = since === last ? (r.orders - since.orders) * 1000 / (at - since.at) : 0;
    set($("rate"), rate > 0 ? "· " + number.format(Math.round(rate)) + " " + words["per second"] : "");
    last = { id: v.id, orders: r.orders, at };
  }
  $("progress").max = r.stock;
  $("progress").value = r.sold;
  for (const [id, value] of Object.entries({ stock: r.stock, sold: r.sold, left: r.stock - r.sold, buyers: r.distinctUsers }))
    set($(id), number.format(value));
  const promises = [["not oversold", !r.oversold], ["one each", r.duplicateOrders === 0], ["all counted", r.orders === r.sold]];
  const text = promises.map(([name, kept]) => (kept ? "✓ " : `✗ ${words.broken}: `) + words[name]);
  if (text.join() !== [...$("promises").children].map(item => item.textContent).join())
    $("promises").replaceChildren(...promises.map(([, kept], i) => make("li", text[i], { class: kept ? "kept" : "broken" })));
}
function showChoice(vouchers) {
  const picker = $("voucher"), ids = vouchers.map(v => v.id).join();
  if (picker.dataset.ids !== ids) {
    picker.replaceChildren(...vouchers.map(v => new Option(v.title, v.id)));
    picker.dataset.ids = ids;
  }
  if (sale && document.activeElement !== picker) picker.value = sale.id;
  $("choice").hidden = vouchers.length < 2;
}
function row(head, cells) {
  const tr = document.createElement("tr");
  tr.append(make("th", head, { scope: "row" }), ...cells.map(cell => make("td", number.format(cell))));
  return tr;
}
function showLocks(locks) {
  if (!locks.length) return;
  $("locks").tBodies[0].replaceChildren(...locks.map(l => {
    const tr = row(l.template, [l.waiting, l.held, l.granted, l.refused]);
    tr.cells[1].classList.toggle("hot", l.waiting > 0);
    return tr;
  }));
}
function showAnswers(answers) {
  const sorted = Object.entries(answers).sort(([a, n], [b, m]) => (b === "placed") - (a === "placed") || m - n);
  if (!sorted.length) return;
  const most = Math.max(...sorted.map(([, n]) => n));
  $("answers").tBodies[0].replaceChildren(...sorted.map(([code, n]) => {
    const tr = row(words[code] || code, [n]);
    if (code !== "placed") tr.cells[0].append(" ", make("code", code));
    const bar = make("i", "", { class: code === "placed" ? "bar placed" : "bar", "aria-hidden": "true" });
    bar.style.width = 100 * n / most + "%";
    const cell = make("td", "");
    cell.append(bar);
    tr.append(cell);
    return tr;
  }));
}

function follow(id) {
  chosen = id;
  sale = { id }; // who clicks before the first event orders from the right sale
  const here = new URL(location);
  here.searchParams.set("voucher", id);
  history.replaceState(null, "", here);
  for (const link of document.querySelectorAll("nav a")) link.search = new URLSearchParams({ lang: link.lang, voucher: id });
  connect();
}

// order returns the status and what became of it: "placed", or the code of the refusal.
async function order(user) {
  const answer = await fetch(`api/vouchers/${sale.id}/orders`, { method: "POST", headers: { "X-User-Id": user } });
  const body = await answer.json().catch(() => ({}));
  return { status: answer.status, code: answer.ok ? "placed" : body.code || answer.statusText };
}

// doing runs one action at a time, and says what came of it. Buttons stay
// focusable meanwhile.
let busy = false;
async function doing(action) {
  if (busy) return;
  busy = true;
  for (const button of $("order").querySelectorAll("button")) button.setAttribute("aria-disabled", "true");
  try {
    $("answer").textContent = await action();
  } catch {
    $("answer").textContent = words["no answer"];
  } finally {
    busy = false;
    for (const button of $("order").querySelectorAll("button")) button.removeAttribute("aria-disabled");
  }
}
$("order").addEventListener("submit", event => {
  event.preventDefault();
  doing(async () => {
    if (!sale) return words["no sale"];
    const { status, code } = await order($("user").value);
    return code === "placed" ? `${status} · ${words.placed}` : `${status} ${said(code)}`;
  });
});
$("crowd")?.addEventListener("click", () => doing(async () => {
  if (!sale) return words["no sale"];
  $("answer").textContent = words["crowd runs"];
  const crowd = Math.random().toString(36).slice(2, 8), seen = {};
  const clicks = Array.from({ length: CROWD.users * CROWD.clicks }, (_, n) => `${crowd}-${Math.floor(n / CROWD.clicks)}`);
  await Promise.all(Array.from({ length: CROWD.atOnce }, async () => {
    while (clicks.length) {
      const { code } = await order(clicks.shift());
      seen[code] = (seen[code] || 0) + 1;
    }
  }));
  return words["crowd done"] + " " + Object.entries(seen).map(([code, n]) => `${number.format(n)} ${words[code] || code}`).join(", ");
}));
$("open")?.addEventListener("click", () => doing(async () => {
  const now = Date.now();
  const answer = await fetch("api/vouchers", {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      title: `${words.name} ${new Date(now).toLocaleTimeString(lang)}`, stock: 100,
      beginAt: new Date(now - 1000).toISOString(), endAt: new Date(now + 3600e3).toISOString(),
    }),
  });
  const body = await answer.json();
  if (!answer.ok) return `${answer.status} ${body.code}`;
  follow(body.id);
  return words.opened;
}));
$("voucher").addEventListener("change", () => follow($("voucher").value));

// A page that nobody sees doesn't hold a connection.
document.addEventListener("visibilitychange", () => { document.hidden ? stream.close() : connect(); });
connect();

"use strict";

const words = {
  "en": {
    title: "Locks · redlatch", locks: "Locks", language: "Language", held: "Held", filter: "Filter", key: "Key", mode: "Mode", holder: "Holder",
    since: "Since", left: "Left", fence: "Fence", waitingN: "Waiting", none: "Nothing is held", waiting: "Waiting here", hottest: "Hottest here",
    losses: "Lost here", close: "Close", queue: "Queue", timeline: "Timeline of this process", release: "Take it away",
    warn: "Its holders lose the lock at once. Work that doesn't look at its lease goes on.", typed: "Type the key", reason: "Reason",
    take: "Take the lock away", connecting: "connecting", live: "live, as of", failed: "the store can't be read", noEnd: "no end", unknown: "unknown",
    endless: "has no end", foreign: "foreign format", zombie: "its process has ended, or has no identity", kept: "kept for its minimum hold",
    problems: "Problems", more: "and more", empty: "none", free: "Nobody holds it", heldIn: "Held, mode", granted: "granted", busy: "refused: busy",
    released: "released", lost: "lost", forced: "taken away", after: "after", by: "by", freed: "It is free.", wasFree: "It was free already.", refused: "Refused:",
    calls: "calls", process: "processes or callers"
  },
  "zh-CN": {
    title: "锁 · redlatch", locks: "锁", language: "语言", held: "持有中", filter: "筛选", key: "键", mode: "模式", holder: "持有者",
    since: "已持有", left: "剩余", fence: "栅栏号", waitingN: "等待", none: "没有持有中的锁", waiting: "本进程等待中", hottest: "本进程最热",
    losses: "本进程丢失", close: "关闭", queue: "队列", timeline: "本进程时间线", release: "强制释放",
    warn: "持有者会立即失去该锁。不检查租约的工作会继续执行。", typed: "输入键名", reason: "原因",
    take: "强制释放该锁", connecting: "连接中", live: "实时，更新于", failed: "无法读取存储", noEnd: "无期限", unknown: "未知",
    endless: "没有期限", foreign: "外部格式", zombie: "其进程已结束，或未登记身份", kept: "因最短持有时间保留",
    problems: "问题", more: "还有更多", empty: "无", free: "无人持有", heldIn: "持有中，模式", granted: "获得", busy: "被拒绝：忙",
    released: "释放", lost: "丢失", forced: "被强制释放", after: "历时", by: "操作者", freed: "已释放。", wasFree: "本来就无人持有。", refused: "被拒绝：",
    calls: "次", process: "个进程或调用者"
  }
};

const $ = id => document.getElementById(id);
let lang = new URLSearchParams(location.search).get("lang") ?? (navigator.languages ?? []).find(l => /^(zh|en)/i.test(l)) ?? "en";
lang = /^zh/i.test(lang) ? "zh-CN" : "en";
const word = name => words[lang][name] ?? name;
let look = null, state = "connecting", open = null;

// make returns an element with text, never HTML: keys come from strangers.
function make(tag, text, kind) {
  const e = document.createElement(tag);
  e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

function speak() {
  document.documentElement.lang = lang;
  document.title = word("title");
  for (const e of document.querySelectorAll("[data-word]")) e.textContent = word(e.dataset.word);
  for (const e of document.querySelectorAll("[data-label]")) e.setAttribute("aria-label", word(e.dataset.label));
  for (const e of document.querySelectorAll("[data-lang]")) e.setAttribute("aria-pressed", String(e.dataset.lang === lang));
  draw();
}

function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  return s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " d";
}

const clock = at => new Date(at).toLocaleTimeString(lang);

function status() {
  $("status").dataset.state = state;
  const text = state === "live" ? word("live") + " " + clock(look.at) : word(state) + (look?.error ? ": " + look.error : "");
  if ($("status").textContent !== text) $("status").textContent = text;
}

function keyButton(key) {
  const b = make("button", JSON.stringify(key).slice(1, -1), "link");
  b.type = "button";
  b.dataset.key = key;
  return b;
}

// keyed shows all in a list. What was there before stays the same element: a look must move
// neither the focus nor what is being clicked.
function keyed(parent, all, id, create, update) {
  const before = new Map([...parent.children].map(e => [e.dataset.id, e]));
  const now = all.map(one => {
    const e = before.get(id(one)) ?? create(one);
    e.dataset.id = id(one);
    update(e, one);
    return e;
  });
  if (now.length === parent.children.length && now.every((e, i) => e === parent.children[i])) return;
  const focused = document.activeElement;
  parent.replaceChildren(...now);
  if (focused !== document.activeElement && focused.isConnected) focused.focus();
}

function newRow(row) {
  const tr = document.createElement("tr"), key = make("td", "", "key");
  key.append(keyButton(row.key));
  tr.append(key);
  return tr;
}

function drawRow(tr, row) {
  const holder = make("td", row.kept ? word("kept") : row.holder || row.owner || word("unknown"));
  if (row.problem) holder.append(document.createElement("br"), make("strong", word(row.problem), "problem"));
  if (row.more) holder.append(document.createElement("br"), "+ " + row.more);
  const cells = [make("td", row.mode), holder, make("td", row.since ? span(Date.parse(look.at) - Date.parse(row.since)) : "–"),
    make("td", row.leftMs < 0 ? word("noEnd") : span(row.leftMs)), make("td", row.fence ?? "–"), make("td", row.waiting < 0 ? "–" : row.waiting)];
  while (tr.children.length > 1) tr.lastChild.remove();
  tr.append(...cells);
}

function items(list, all, text) {
  const none = [{key: ""}];
  keyed(list, all?.length ? all : none, one => one.key + (one.at ?? ""), one => {
    const li = document.createElement("li");
    li.append(one.key === "" ? "" : keyButton(one.key), "");
    return li;
  }, (li, one) => {
    li.className = one.key === "" ? "empty" : "";
    li.lastChild.textContent = one.key === "" ? word("empty") : " " + text(one);
  });
}

function draw() {
  status();
  if (!look) return;
  const wanted = $("filter").value.toLowerCase();
  const rows = look.held.filter(r => (r.key + " " + r.holder).toLowerCase().includes(wanted));
  keyed($("held").tBodies[0], rows.slice(0, 500), r => JSON.stringify([r.key, r.owner]), newRow, drawRow);
  $("n-held").textContent = look.held.length + (look.cut ? "+" : "") + (rows.length > 500 ? " · " + word("more") : "");
  $("none").hidden = rows.length > 0;
  const bad = look.held.filter(r => r.problem);
  $("problems").hidden = bad.length === 0;
  $("problems").textContent = word("problems") + ": " + bad.length;
  items($("waiting"), look.waiting, one => "· " + one.n);
  items($("hottest"), look.hottest, one => "· " + one.n + " " + word("calls"));
  items($("losses"), look.losses, one => "· " + clock(one.at) + " · " + one.reason + " · " + one.who);
}

function drawDetail(d) {
  $("d-key").textContent = JSON.stringify(d.key).slice(1, -1);
  $("d-state").textContent = d.held ? word("heldIn") + " " + d.mode : word("free");
  $("d-holders").replaceChildren(...d.rows.map(r => {
    const text = [r.holder || r.owner, r.since && word("since") + " " + clock(r.since), r.fence && word("fence") + " " + r.fence,
      word("left") + " " + (r.leftMs < 0 ? word("noEnd") : span(r.leftMs)), r.problem && word(r.problem), r.kept && word("kept")];
    return make("li", text.filter(Boolean).join(" · "));
  }));
  $("d-queue").replaceChildren(...(d.queue.length ? d.queue.map(w => make("li", w)) : [make("li", word("empty"), "empty")]));
  $("d-timeline").replaceChildren(...(d.timeline?.length ? d.timeline.map(e => {
    const text = [clock(e.at), word(e.kind), e.fence && word("fence") + " " + e.fence, e.heldMs && word("after") + " " + span(e.heldMs), e.reason, e.who];
    return make("li", text.filter(Boolean).join(" · "), e.kind);
  }) : [make("li", word("empty"), "empty")]));
  $("release").hidden = !(d.releases && d.held);
}

async function show(key) {
  const response = await fetch("key?key=" + encodeURIComponent(key));
  if (!response.ok) {
    $("answer").textContent = word("refused") + " " + await response.text();
    return;
  }
  drawDetail(await response.json());
}

async function openKey(key) {
  open = key;
  $("typed").value = $("reason").value = $("answer").textContent = "";
  $("take").disabled = true;
  await show(key);
  if (!$("detail").open) $("detail").showModal();
}

async function take(event) {
  event.preventDefault();
  const key = open;
  const response = await fetch("release", {
    method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({key, typed: $("typed").value, reason: $("reason").value})
  });
  $("answer").textContent = response.ok ? word((await response.json()).freed ? "freed" : "wasFree") : word("refused") + " " + await response.text();
  if (response.ok) await show(key);
}

function mayTake() { $("take").disabled = $("typed").value !== open || $("reason").value.trim() === ""; }

function follow() {
  const stream = new EventSource("events");
  stream.onmessage = event => {
    look = JSON.parse(event.data);
    state = look.error ? "failed" : "live";
    draw();
    if ($("detail").open) show(open);
  };
  stream.onerror = () => {
    state = "connecting";
    status();
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
}

document.addEventListener("click", event => {
  const button = event.target.closest("button");
  if (button?.dataset.key !== undefined) openKey(button.dataset.key);
  if (button?.dataset.lang !== undefined) {
    lang = button.dataset.lang;
    speak();
    if ($("detail").open) show(open);
  }
});
$("filter").addEventListener("input", draw);
$("typed").addEventListener("input", mayTake);
$("reason").addEventListener("input", mayTake);
$("release").addEventListener("submit", take);
speak();
follow();

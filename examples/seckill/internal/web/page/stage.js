"use strict";

// The stage: three lanes, what happens on them, and the buttons that hurt. A run comes from
// the service, as events, or from a file, as frames.
(() => {
  const LANES = ["nothing", "lock", "fence"];
  const LIMITS = { users: "users", clicks: "clicks", stock: "stage-stock" };
  const address = new URLSearchParams(location.search);
  const fill = (text, args) => text.replace(/\{(\d)\}/g, (_, n) => args[n] ?? "");
  const clock = new Intl.DateTimeFormat(lang, { timeStyle: "medium" });
  const seconds = new Intl.NumberFormat(lang, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const laneName = id => words["lane " + id] || id;
  let source = null, now = null, replaying = 0, wanted = address.has("seed") || address.has("users");

  function connect() {
    source?.close();
    source = new EventSource("stage/events");
    source.addEventListener("stage", event => { if (!replaying) show(JSON.parse(event.data)); });
    source.addEventListener("error", event => {
      set($("stage-status"), words.connecting);
      if (event.target.readyState === EventSource.CLOSED) setTimeout(() => { if (event.target === source) connect(); }, 2000);
    });
  }

  function show(state) {
    now = state;
    set($("stage-status"), status(state));
    for (const lane of state.lanes) showLane(lane, state.run.n > 0 || state.scene);
    showScene(state.scene);
    set($("locks-button"), words[state.locks ? "stopButton" : "startButton"]);
    $("locks-button").setAttribute("aria-pressed", !state.locks);
    const dead = state.instances.indexOf(false);
    set($("kill"), dead < 0 ? words.killButton : fill(words.startInstance, [dead + 1]));
    $("kill").setAttribute("aria-pressed", dead >= 0);
    for (const id of ["send", "double", "pause", "kill"]) state.busy ? $(id).setAttribute("aria-disabled", "true") : $(id).removeAttribute("aria-disabled");
    showLog(state.log || []);
    plot(state);
    if (!replaying && !state.busy && (state.run.n === 0 || wanted)) { wanted = false; send(Number(address.get("seed")) || 0); }
  }
  function status(state) {
    const parts = [state.busy ? words["busy " + state.busy] : words.ready];
    if (state.run.n) parts.push(fill(words.ran, [number.format(state.run.users), number.format(state.run.clicks), number.format(state.run.stock), state.run.seed]));
    if (!state.locks) parts.push(words.storeStopped);
    return parts.join(" ");
  }
  function showLane(lane, seen) {
    const id = lane.id, v = lane.verdict, at = $("verdict-" + id);
    const kept = !lane.broken;
    at.className = "verdict " + (!seen ? "" : kept ? "kept" : "broken");
    const faults = [];
    if (v.orders > v.stock) faults.push(fill(words.oversoldBy, [number.format(v.orders - v.stock)]));
    if (v.twice) faults.push(fill(words.twiceBy, [number.format(v.twice)]));
    set(at, !seen ? "–" : (kept ? "✓ " + words.verdictKept : "✗ " + faults.join(" ")) + " " + fill(words.readAt, [clock.format(new Date(v.at))]));
    at.dataset.broken = lane.broken;
    set($("sold-" + id), fill(words.of, [number.format(v.orders), number.format(v.stock)]));
    for (const name of ["sold", "twice"]) $(name + "-" + id).classList.toggle("hot", name === "sold" ? v.orders > v.stock : v.twice > 0);
    set($("twice-" + id), number.format(v.twice));
    set($("late-" + id), id === "fence" ? number.format(lane.late) : words.nobodyLooks);
    set($("spared-" + id), id === "nothing" ? words.noLock : number.format(lane.spared));
    const ms = n => n < .05 ? "<0.1" : number.format(n < 10 ? +n.toFixed(1) : Math.round(n));
    set($("latency-" + id), lane.clicks ? `${ms(lane.p50)} · ${ms(lane.p99)} ms` : "–");
    list($("answers-" + id), Object.entries(lane.answers || {}).sort(([, a], [, b]) => b - a).map(([code, n]) => `${number.format(n)} × ${words[code] || code}`));
    const keys = lane.held.map(h => fill(words[h.trusted ? "heldKey" : "heldLost"], [h.key, h.instance, h.fence, seconds.format(h.leftMs / 1000)]));
    for (const w of lane.waiting) keys.push(fill(words.waitingKey, [w.key, w.instance, number.format(w.waiters)]));
    list($("keys-" + id), keys.length ? keys : [id === "nothing" ? words.noLock : words.noKeys]);
  }
  function list(element, lines) {
    if (element.dataset.lines === lines.join("\n")) return;
    element.dataset.lines = lines.join("\n");
    element.replaceChildren(...lines.map(line => make("li", line)));
  }
  function showScene(scene) {
    const key = scene ? scene.name + (scene.steps || []).length : "";
    if ($("scene").dataset.key === key) return;
    $("scene").dataset.key = key;
    if (!scene) { $("scene").replaceChildren(make("p", words.noScene, { class: "quiet" })); return; }
    $("scene").replaceChildren(make("p", words[scene.name], { class: "quiet" }), ...LANES.map(id => {
      const steps = document.createElement("ol");
      steps.className = "plain steps";
      for (const s of (scene.steps || []).filter(s => s.lane === id)) {
        const item = make("li", `${seconds.format(s.ms / 1000)} s · `);
        item.append(make("b", fill(words.instance, [s.instance])), " " + (words["step " + s.kind] || words[s.kind] || s.kind));
        if (s.fence) item.append(" ", make("code", fill(words.fenceIs, [s.fence])));
        if (["LATE_WRITE", "LOCK_CONTENDED"].includes(s.kind)) item.className = "kept";
        if (s.kind === "late write taken") item.className = "broken";
        steps.append(item);
      }
      const block = document.createElement("div");
      block.append(make("h4", laneName(id)), steps);
      return block;
    }));
  }
  const ARGS = { "late write taken": a => [laneName(a[0])], "late write refused": a => [laneName(a[0])], failed: a => [laneName(a[0])] };
  function showLog(log) {
    list($("log"), log.slice().reverse().map(l => clock.format(new Date(l.at)) + " " + fill(words["log " + l.kind] || words[l.kind] || l.kind, (ARGS[l.kind] || (a => a))(l.args || []))));
  }

  // The chart: orders in each lane since the crowd came.
  let chart = null, data = null, began = 0, run = -1;
  const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function plot(state) {
    if (!state.run.n || typeof uPlot === "undefined") return;
    if (run !== state.run.n) {
      run = state.run.n; began = Date.parse(state.at); data = [[], [], [], [], []];
    }
    if (state.busy && state.busy !== "crowd") return;
    const at = (Date.parse(state.at) - began) / 1000, last = data[0].at(-1);
    if (last !== undefined && (at <= last || !state.busy && at > last + 1)) return;
    data[0].push(at);
    state.lanes.forEach((lane, i) => data[i + 1].push(lane.verdict.orders));
    data[4].push(state.run.stock);
    if (!chart) chart = draw();
    chart.setData(data);
  }
  function draw() {
    const line = (label, stroke, dash) => ({ label, stroke, width: 2, dash, points: { show: false } });
    const axis = label => ({ label, stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } });
    return new uPlot({
      width: $("chart").clientWidth, height: 200, cursor: { show: false }, legend: { live: false }, scales: { x: { time: false } },
      axes: [axis(words.secondsAxis), axis(words.sold)],
      series: [{ label: words.secondsAxis }, line(laneName("nothing"), color("--hot")), line(laneName("lock"), color("--mid")), line(laneName("fence"), color("--good")), line(words.stock, color("--quiet"), [6, 4])],
    }, data, $("chart"));
  }
  new ResizeObserver(() => chart?.setSize({ width: $("chart").clientWidth, height: 200 })).observe($("chart"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (chart) { chart.destroy(); chart = draw(); } });

  async function act(body) {
    if (replaying) { replaying = 0; connect(); }
    const answer = await fetch("stage/action", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (answer.status === 409) set($("stage-status"), words.stageBusy);
    return answer.ok;
  }
  function crowd() {
    return Object.fromEntries(Object.entries(LIMITS).map(([name, id]) => [name, Number($(id).value)]));
  }
  async function send(seed) {
    const who = crowd();
    seed = seed || 1 + Math.floor(Math.random() * 999999);
    if (!await act({ do: "crowd", ...who, seed })) return;
    const here = new URL(location);
    for (const [name, value] of Object.entries({ ...who, seed })) here.searchParams.set(name, value);
    history.replaceState(null, "", here);
  }
  for (const [name, id] of Object.entries(LIMITS)) {
    if (address.has(name)) $(id).value = address.get(name);
    const tell = () => set($(id + "-now"), number.format($(id).value));
    $(id).addEventListener("input", tell);
    tell();
  }
  $("crowd-form").addEventListener("submit", event => { event.preventDefault(); send(0); });
  $("double").addEventListener("click", () => act({ do: "double" }));
  $("pause").addEventListener("click", () => act({ do: "pause" }));
  $("locks-button").addEventListener("click", () => now && act({ do: now.locks ? "stop locks" : "start locks" }));
  $("kill").addEventListener("click", () => {
    if (!now) return;
    const dead = now.instances.indexOf(false);
    act(dead < 0 ? { do: "kill", instance: 2 } : { do: "start", instance: dead + 1 });
  });

  // A run from a file, as fast as it was.
  async function play(file) {
    const frames = file.frames || [], mine = replaying = replaying + 1;
    source?.close();
    run = -1;
    for (const [i, frame] of frames.entries()) {
      await new Promise(done => setTimeout(done, i ? Math.min(2000, frame.ms - frames[i - 1].ms) : 0));
      if (replaying !== mine) return;
      show(frame.state);
      set($("stage-status"), words.replay + " " + status(frame.state));
    }
  }
  $("replay").addEventListener("change", async event => {
    const [file] = event.target.files;
    if (file) play(JSON.parse(await file.text()));
  });
  if (address.has("replay")) fetch(address.get("replay")).then(answer => answer.json()).then(play);
  else connect();
  document.addEventListener("visibilitychange", () => { if (!replaying) document.hidden ? source.close() : connect(); });
})();

"use strict";

// The page shows one state at a time: everything on it follows from the last one
// that the server sent.

const byId = (id) => document.getElementById(id);
const whole = (x) => Math.round(x).toLocaleString("en");
const words = (reason) => reason.replaceAll("_", " ");
const places = ["client", "entry", "middle", "store"];

// Reasons keep their colour for the whole page, in order of appearance.
const reasonColour = new Map();
function colourOf(reason) {
  if (!reasonColour.has(reason)) reasonColour.set(reason, "r" + (reasonColour.size % 7));
  return reasonColour.get(reason);
}

function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}
function drawn(name, attributes = {}, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}
function setText(e, text) { if (e.textContent !== text) e.textContent = text; }

// chart draws into svg:
//   xMax, yMin, yMax, log, ticks    the scales
//   areas, lines                    [{cls, values: [[x, y], …], base: [[x, y], …]}]
//   levels                          [{cls, y, name}]
//   shade                           [from, to] of the overload
function chart(svg, c) {
  const width = svg.clientWidth || 400, height = svg.clientHeight || 150;
  const left = 40, right = 8, top = 6, bottom = 18;
  const x = (v) => left + (width - left - right) * Math.min(Math.max(v / c.xMax, 0), 1);
  const scale = c.log
    ? (v) => Math.log(Math.max(v, c.yMin) / c.yMin) / Math.log(c.yMax / c.yMin)
    : (v) => (v - c.yMin) / (c.yMax - c.yMin);
  const y = (v) => height - bottom - (height - top - bottom) * Math.min(Math.max(scale(v), 0), 1);
  const at = ([a, b]) => x(a).toFixed(1) + "," + y(b).toFixed(1);
  const parts = [];
  if (c.shade) {
    parts.push(drawn("rect", { class: "shade", x: x(c.shade[0]), y: top, width: x(c.shade[1]) - x(c.shade[0]), height: height - top - bottom }));
  }
  for (const tick of c.ticks) {
    parts.push(drawn("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
    parts.push(drawn("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, tick >= 1000 ? tick / 1000 + "k" : String(tick)));
  }
  for (let t = 0; t <= c.xMax; t += c.xMax > 10 ? 5 : 1) {
    parts.push(drawn("text", { x: x(t), y: height - 4, "text-anchor": t === 0 ? "start" : "middle" }, t === 0 ? "0 s" : String(t)));
  }
  for (const area of c.areas || []) {
    if (area.values.length < 2) continue;
    const foot = area.base || [[area.values.at(-1)[0], c.yMin], [area.values[0][0], c.yMin]].reverse();
    parts.push(drawn("path", { class: "fill " + area.cls, d: "M" + area.values.map(at).join("L") + "L" + [...foot].reverse().map(at).join("L") + "Z" }));
  }
  for (const line of c.lines || []) {
    // A value of null is a gap.
    let d = "", pen = "M";
    for (const point of line.values) {
      if (point[1] === null) { pen = "M"; continue; }
      d += pen + at(point);
      pen = "L";
    }
    if (d) parts.push(drawn("path", { class: line.cls, d }));
  }
  for (const level of c.levels || []) {
    parts.push(drawn("line", { class: "level " + level.cls, x1: left, x2: width - right, y1: y(level.y), y2: y(level.y) }));
    parts.push(drawn("text", { class: "levelname " + level.cls, x: left + 5, y: y(level.y) - 4 }, level.name));
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", c.label);
  svg.replaceChildren(...parts);
}

function steps(most, n) {
  const raw = most / n, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * power).find((f) => f >= raw);
  const out = [];
  for (let v = 0; v <= most; v += step) out.push(v);
  return out;
}

function caption(figure, title, ...items) {
  const e = figure.querySelector("figcaption");
  e.replaceChildren(element("b", {}, title), ...items.map(([cls, text]) => element("span", {}, element("i", { class: cls }), text)));
}

const overloadOf = (s) => s.steps.reduce((best, step) => (step.factor > best.factor ? step : best), s.steps[0]);
const stepAt = (s, t) => s.steps.find((step) => t < step.to) || s.steps.at(-1);

// figuresOf returns the numbers on an act's tiles: of the last half second while
// it runs, of the overload afterwards.
function figuresOf(s, act) {
  const i = s.steps.indexOf(overloadOf(s));
  if (act.outcome) {
    const o = act.outcome.steps[i], seconds = o.to - o.from;
    return { when: "at " + s.steps[i].name, offered: o.offered, goodput: o.goodput, met: o.attainment, p50: o.p50_ms, p99: o.p99_ms,
      refused: o.refused / seconds, timedOut: o.timed_out / seconds };
  }
  const p = act.points.at(-1);
  if (!p) return null;
  const refused = Object.values(p.shed || {}).reduce((a, b) => a + b, 0);
  return { when: "now", offered: p.offered, goodput: p.goodput, met: Math.min(p.goodput / Math.max(p.offered, 1), 1), p50: p.p50_ms, p99: p.p99_ms,
    refused, timedOut: p.timed_out };
}

function tile(section, name, text, small, mark) {
  const e = section.querySelector(`[data-tile=${name}]`);
  e.replaceChildren(text, element("small", {}, small));
  e.className = mark || "";
}

// Where nothing was served there is no latency.
const unserved = (f) => f.p99 === 0 && f.offered > 0;
const took = (f, ms) => (unserved(f) ? "none" : whole(ms) + " ms");
// ms shows a latency; 0 is that of no answer.
const ms = (x, unit = "ms") => (x > 0 ? `${whole(x)} ${unit}` : "none");
const withP99 = (f) => (unserved(f) ? "" : `, with a p99 of ${whole(f.p99)} ms`);

// tookTile shows the p99 of f; mark says how a good or bad one is marked.
function tookTile(section, s, f, mark = (good) => (good ? "good" : "bad")) {
  tile(section, "p99", took(f, f.p99), unserved(f) ? "none was served" : `objective ${whole(s.slo_ms)} ms`, mark(!unserved(f) && f.p99 <= s.slo_ms));
}

const actTitle = { plain: "Plain: the services as they are", gated: "Gated: the same load, gates and credits" };

function showAct(s, act) {
  let section = byId("act-" + act.name);
  if (!section) {
    section = byId("act").content.firstElementChild.cloneNode(true);
    section.id = "act-" + act.name;
    byId("acts").append(section);
  }
  setText(section.querySelector("h2"), actTitle[act.name]);
  const capacity = s.capacity.rate, slo = s.slo_ms, over = overloadOf(s);
  const shade = [over.from, over.to];
  const f = figuresOf(s, act);
  if (f) {
    const full = Math.min(f.offered, capacity);
    tile(section, "goodput", whole(f.goodput) + "/s", `${whole(100 * f.goodput / capacity)} % of capacity, ${f.when}`, f.goodput >= 0.9 * full ? "good" : "bad");
    tile(section, "met", (100 * f.met).toFixed(f.met < 0.0995 ? 1 : 0) + " %", `of ${whole(f.offered)}/s offered`);
    tookTile(section, s, f);
    tile(section, "lost", whole(f.refused + f.timedOut) + "/s", f.refused ? "refused at once, or nearly" : f.timedOut ? `timed out after ${s.timeout_ms / 1000} s` : "");
  }

  const xMax = s.act_length, yMax = 1.1 * over.factor * capacity;
  const of = (key) => act.points.map((p) => [p.t, p[key]]);
  const present = (key) => act.points.map((p) => [p.t, p[key] > 0 ? p[key] : null]);
  const last = act.points.at(-1);
  const load = section.querySelector("[data-chart=load]");
  caption(load, "Load, 1/s", ["goodput", "goodput"], ["offered", "offered"]);
  chart(load.querySelector("svg"), {
    xMax, yMin: 0, yMax, ticks: steps(yMax, 4), shade,
    areas: [{ cls: "offered", values: of("offered") }, { cls: "goodput", values: of("goodput") }],
    levels: [{ cls: "capacity", y: capacity, name: "capacity " + whole(capacity) + "/s" }],
    label: last ? `Offered load ${whole(last.offered)} and goodput ${whole(last.goodput)} requests per second` : "No data yet",
  });
  const latency = section.querySelector("[data-chart=latency]");
  caption(latency, "Latency of answers, ms", ["p99", "p99"], ["p50", "p50"]);
  chart(latency.querySelector("svg"), {
    xMax, yMin: 3, yMax: 1.15 * s.timeout_ms, log: true, ticks: [3, 10, 30, 100, 300, 1000].filter((t) => t <= 1.15 * s.timeout_ms), shade,
    lines: [{ cls: "p50", values: present("p50_ms") }, { cls: "p99", values: present("p99_ms") }],
    levels: [{ cls: "slo", y: slo, name: "SLO " + whole(slo) + " ms" }],
    label: last ? `Latency: p50 ${ms(last.p50_ms, "milliseconds")} and p99 ${ms(last.p99_ms, "milliseconds")}, objective ${whole(slo)}` : "No data yet",
  });

  // Requests without an answer, stacked by reason; time-outs on top.
  const reasons = [];
  for (const p of act.points) for (const r of Object.keys(p.shed || {})) if (!reasons.includes(r)) reasons.push(r);
  const stack = [];
  let base = act.points.map((p) => [p.t, 0]);
  const pile = (cls, value) => {
    const values = act.points.map((p, i) => [p.t, base[i][1] + value(p)]);
    stack.push({ cls, values, base });
    base = values;
  };
  for (const r of reasons) pile(colourOf(r), (p) => (p.shed || {})[r] || 0);
  const timeouts = act.points.some((p) => p.timed_out > 0);
  if (timeouts) pile("timeout", (p) => p.timed_out);
  const sheds = section.querySelector("[data-chart=sheds]");
  const legend = reasons.map((r) => [colourOf(r), words(r)]);
  if (timeouts) legend.push(["timeout", "timed out"]);
  caption(sheds, "Not answered, 1/s, by reason", ...legend);
  chart(sheds.querySelector("svg"), {
    xMax, yMin: 0, yMax, ticks: steps(yMax, 4), shade, areas: stack,
    label: `${whole(act.totals.refused)} requests refused and ${whole(act.totals.timed_out)} timed out so far`,
  });
  shedTable(section.querySelector("[data-table=sheds]"), act);
  setText(section.querySelector("[data-store]"), storeText(act));
}

// figuresOfTenant returns the numbers on a tenant's tiles: of the last half
// second while the act runs, of the burst afterwards.
function figuresOfTenant(a, t) {
  const step = t.outcome && t.steps[1];
  if (step) return { when: "during", offered: step.offered, goodput: step.goodput, p99: step.p99_ms };
  const p = t.points.at(-1);
  return p ? { when: "now", offered: p.offered, goodput: p.goodput, p99: p.p99_ms } : null;
}

const aggressive = (t) => t.burst > t.usual;
const lostText = (shed, timedOut, show) => [...Object.entries(shed || {}).sort((x, y) => y[1] - x[1]).map(([r, n]) => `${words(r)} ${show(n)}`),
  ...(timedOut ? [`timed out ${show(timedOut)}`] : [])].join(", ") || "none";
const perSecond = (x) => (x < 1 ? x.toFixed(1) : whole(x));

function showTenants(s) {
  const a = s.tenants;
  byId("tenants").hidden = !a;
  if (!a) return;
  for (const t of a.each) showTenant(s, a, t);
  const columns = ["tenant", "offered, 1/s", "goodput, 1/s", "SLO met", "p99, ms", "refused, 1/s"];
  const rows = [];
  for (const t of a.each) {
    ["before", "during"].forEach((when, i) => {
      const o = t.steps[i];
      if (!o || !o.offered) return;
      const seconds = o.to - o.from;
      rows.push(element("tr", {}, element("th", { scope: "row" }, `${t.name} ${when}`),
        ...[whole(o.offered), whole(o.goodput), (100 * o.attainment).toFixed(1) + " %", o.p99_ms ? whole(o.p99_ms) : "none", lostText(o.shed, o.timed_out, (n) => perSecond(n / seconds))]
          .map((text) => element("td", {}, text))));
    });
  }
  byId("turns").replaceChildren(element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", { scope: "col" }, c)))), element("tbody", {}, ...rows));
}

function showTenant(s, a, t) {
  let section = byId("tenant-" + t.name);
  if (!section) {
    section = byId("tenant").content.firstElementChild.cloneNode(true);
    section.id = "tenant-" + t.name;
    byId("each").append(section);
  }
  setText(section.querySelector("h3"), aggressive(t) ? `Tenant ${t.name} comes with ${t.burst}x the capacity` : `Tenant ${t.name}, ${t.usual}x the capacity`);
  const slo = s.slo_ms, f = figuresOfTenant(a, t);
  if (f) {
    const mark = (good) => (aggressive(t) ? "" : good ? "good" : "bad");
    tile(section, "goodput", whole(f.goodput) + "/s", `of ${whole(f.offered)}/s offered, ${f.when}`, mark(f.goodput >= 0.9 * f.offered));
    tookTile(section, s, f, mark);
  }
  const xMax = a.length, yMax = 1.25 * Math.max(t.usual, t.burst) * s.capacity.rate, shade = [a.steps[1].from, a.steps[1].to];
  const of = (key) => t.points.map((p) => [p.t, p[key]]);
  const last = t.points.at(-1);
  const load = section.querySelector("[data-chart=load]");
  caption(load, "Load, 1/s", ["goodput", "goodput"], ["offered", "offered"]);
  chart(load.querySelector("svg"), {
    xMax, yMin: 0, yMax, ticks: steps(yMax, 4), shade,
    areas: [{ cls: "offered", values: of("offered") }, { cls: "goodput", values: of("goodput") }],
    label: last ? `Tenant ${t.name}: offered load ${whole(last.offered)} and goodput ${whole(last.goodput)} requests per second` : "No data yet",
  });
  const latency = section.querySelector("[data-chart=latency]");
  caption(latency, "Latency of answers, ms", ["p99", "p99"]);
  chart(latency.querySelector("svg"), {
    xMax, yMin: 3, yMax: 1.15 * s.timeout_ms, log: true, ticks: [3, 10, 30, 100, 300, 1000].filter((v) => v <= 1.15 * s.timeout_ms), shade,
    lines: [{ cls: "p99", values: t.points.map((p) => [p.t, p.p99_ms > 0 ? p.p99_ms : null]) }],
    levels: [{ cls: "slo", y: slo, name: "SLO " + whole(slo) + " ms" }],
    label: last ? `Tenant ${t.name}: p99 ${ms(last.p99_ms, "milliseconds")}, objective ${whole(slo)}` : "No data yet",
  });
  setText(section.querySelector("[data-sheds]"), "Refused so far: " + lostText(t.totals.shed, t.totals.timed_out, whole));
}

const kindOf = (o, name) => o.kinds.find((kind) => kind.name === name);
const orderTitle = { fifo: "fifo: every server serves in order of arrival", shares: "shares: the same requests, weighed by class" };
const whyWords = { hops: "they go on to other servers", total: "their whole takes long", history: "they went on to other servers", caller: "their caller says so",
  neither: "they end there", few: "too few were seen", unknown: "none was seen" };

// flood returns what became of a kind's requests in the flood, once an order is over.
const flood = (o, name) => (o && !o.running && kindOf(o, name).steps[1]) || null;
const weightOf = (o) => {
  const last = o.weights.filter((w) => w.points.length).map((w) => w.points.at(-1).weight);
  return last.length ? last.reduce((x, y) => x + y, 0) / last.length : null;
};
const signed = (share) => (share < 0 ? "−" : "+") + Math.abs(Math.round(100 * share)) + " %";

function showCheckout(s) {
  const a = s.checkout;
  byId("checkout").hidden = !a;
  if (!a) return;
  setText(byId("shop"), `A checkout visits ${a.servers.join(", ")}, one after the other; a read visits one of them. Each has ${a.workers} workers of ${a.mean_ms} ms and can do ${whole(a.capacity)}/s. ` +
    "Both orders get the same requests at the same instants. Charts of a row have the same scale.");
  // One scale for both orders, with room for p95 but for the odd half second.
  const most = {};
  for (const name of ["checkouts", "reads"]) {
    most[name] = 1.05 * Math.max(5, ...a.orders.flatMap((o) => kindOf(o, name).points.map((p) => Math.min(p.p95_ms || 0, 3 * (p.mean_ms || 0)))));
  }
  for (const o of a.orders) showOrder(a, o, most);
  const [fifo, shares] = a.orders;
  const rows = [];
  for (const name of ["checkouts", "reads"]) {
    const before = flood(fifo, name), after = flood(shares, name);
    if (!before) continue;
    for (const [what, key] of [["mean", "mean_ms"], ["p95", "p95_ms"]]) {
      rows.push(element("tr", {}, element("th", { scope: "row" }, `${name}, ${what}`),
        ...[whole(before[key]) + " ms", after ? whole(after[key]) + " ms" : "–", after && before[key] ? signed(after[key] / before[key] - 1) : "–"].map((text) => element("td", {}, text))));
    }
  }
  byId("both").replaceChildren(element("thead", {}, element("tr", {}, ...["in the flood", "fifo", "shares", "change"].map((c) => element("th", { scope: "col" }, c)))), element("tbody", {}, ...rows));
  byId("both").hidden = !rows.length;
  const known = shares ? shares.weights.filter((w) => w.checkout.class) : [];
  setText(byId("classes"), ["checkout", "read"].map((kind) => verdictText(kind, known)).join(" "));
  byId("classes").parentElement.hidden = !rows.length && !known.length;
}

// verdictText says what servers take a kind of requests for, and why; those that
// say the same together.
function verdictText(kind, weights) {
  const servers = new Map();
  for (const w of weights) {
    const says = `${w[kind].class}, because ${whyWords[w[kind].why] || w[kind].why}`;
    servers.set(says, [...(servers.get(says) || []), w.server]);
  }
  const parts = [...servers].map(([says, where]) => `${says} (${where.join(", ")})`);
  return parts.length ? `${kind === "checkout" ? "Checkouts" : "Reads"} are of the class ${parts.join("; ")}.` : "";
}

function showOrder(a, o, most) {
  let section = byId("order-" + o.name);
  if (!section) {
    section = byId("order").content.firstElementChild.cloneNode(true);
    section.id = "order-" + o.name;
    byId("orders").append(section);
  }
  setText(section.querySelector("h3"), orderTitle[o.name]);
  const shade = [a.steps[1].from, a.steps[1].to], xMax = a.length;
  for (const name of ["checkouts", "reads"]) {
    const kind = kindOf(o, name), last = kind.points.at(-1), f = flood(o, name) || last;
    if (f) tile(section, name, whole(f.mean_ms || 0) + " ms", `p95 ${whole(f.p95_ms || 0)} ms, ${flood(o, name) ? "in the flood" : "now"}`);
    const figure = section.querySelector(`[data-chart=${name}]`);
    caption(figure, (name === "checkouts" ? "Checkouts" : "Reads") + ", ms", ["p95", "p95"], ["mean", "mean"]);
    const of = (key) => kind.points.map((p) => [p.t, p[key] > 0 ? p[key] : null]);
    chart(figure.querySelector("svg"), {
      xMax, yMin: 0, yMax: most[name], ticks: steps(most[name], 4), shade,
      lines: [{ cls: "p95", values: of("p95_ms") }, { cls: "mean", values: of("mean_ms") }],
      label: last ? `${name} of ${o.name}: mean ${whole(last.mean_ms || 0)} and p95 ${whole(last.p95_ms || 0)} milliseconds` : "No data yet",
    });
  }
  const w = weightOf(o);
  tile(section, "weight", w === null ? "none" : w.toFixed(2), w === null ? "one queue" : `of checkouts, reads ${(1 - w).toFixed(2)}`);
  const figure = section.querySelector("[data-chart=weights]");
  if (o.weights.length) caption(figure, "Weight of checkouts at", ...o.weights.map((x, i) => ["r" + i, x.server]));
  else caption(figure, "No weights: one queue at each server");
  chart(figure.querySelector("svg"), {
    xMax, yMin: 0, yMax: 1, ticks: [0, 0.5, 1], shade,
    lines: o.weights.map((x, i) => ({ cls: "r" + i, values: x.points.map((p) => [p.t, p.weight]) })),
    label: w === null ? "No data yet" : `Weight of checkouts ${w.toFixed(2)}, mean of the servers`,
  });
}

const runTitle = { plain: "plain: no gate", gated: "gated: the culprit is named and cancelled" };

// figuresOfRun returns the numbers of one run of an act: of the last half second while the run
// goes on, of its second step, which is called so, afterwards.
function figuresOfRun(r, called) {
  const step = !r.running && r.steps[1];
  if (step) return { when: called, offered: step.offered, goodput: step.goodput, p99: step.p99_ms };
  const p = r.points.at(-1);
  return p ? { when: "now", offered: p.offered, goodput: p.goodput, p99: p.p99_ms } : null;
}

// fateText says who was cancelled, and what became of the report.
function fateText(r) {
  const parts = [];
  if (r.named) parts.push(`${r.named.kind.split("/").at(-1)} was cancelled when it had been there for ${whole(r.named.age_ms)} ms; it held the ${r.named.resource}, and ${whole(r.named.victims)} waited for it.`);
  if (r.report) parts.push(`The report was ${r.report.end} after ${whole(r.report.took_ms)} ms.`);
  return parts.join(" ");
}

function showCulprit(s) {
  const a = s.culprit;
  byId("culprit").hidden = !a;
  if (!a) return;
  setText(byId("lock"), `${whole(a.rate)} reads a second hold the lock of a store for a moment each; then a report wants it for ${a.held_ms / 1000} s. Both runs get the same reads at the same instants.`);
  for (const r of a.runs) {
    showRun(s, a, r, { id: "run-" + r.name, into: "runs", title: runTitle[r.name], rate: a.rate, what: "reads", caption: "Reads, 1/s", latency: "Latency of answers, ms", figures: figuresOfRun(r, "with the report"),
      text: `Timed out so far: ${whole(r.totals.timed_out)}; refused: ${whole(r.totals.refused)}. ` + fateText(r) });
  }
}

// showRun draws one run of an act that is played without control and with it.
function showRun(s, a, r, c) {
  let section = byId(c.id);
  if (!section) {
    section = byId("tenant").content.firstElementChild.cloneNode(true);
    section.id = c.id;
    byId(c.into).append(section);
  }
  setText(section.querySelector("h3"), c.title);
  const xMax = a.length, yMax = 1.25 * c.rate, shade = [a.steps[1].from, a.steps[1].to];
  const f = c.figures, last = r.points.at(-1);
  if (f) {
    tile(section, "goodput", whole(f.goodput) + "/s", `of ${whole(f.offered)}/s offered, ${f.when}`, f.goodput >= 0.9 * f.offered ? "good" : "bad");
    tookTile(section, s, f);
  }
  const of = (key) => r.points.map((p) => [p.t, p[key]]);
  const load = section.querySelector("[data-chart=load]");
  caption(load, c.caption, ["goodput", "goodput"], ["offered", "offered"]);
  chart(load.querySelector("svg"), {
    xMax, yMin: 0, yMax, ticks: steps(yMax, 4), shade,
    areas: [{ cls: "offered", values: of("offered") }, { cls: "goodput", values: of("goodput") }],
    label: last ? `${r.name}: offered load ${whole(last.offered)} and goodput ${whole(last.goodput)} ${c.what} per second` : "No data yet",
  });
  const latency = section.querySelector("[data-chart=latency]");
  caption(latency, c.latency, ["p99", "p99"]);
  chart(latency.querySelector("svg"), {
    xMax, yMin: 1, yMax: 1.15 * s.timeout_ms, log: true, ticks: [1, 10, 100, 1000].filter((v) => v <= 1.15 * s.timeout_ms), shade,
    lines: [{ cls: "p99", values: r.points.map((p) => [p.t, p.p99_ms > 0 ? p.p99_ms : null]) }],
    levels: [{ cls: "slo", y: s.slo_ms, name: "SLO " + whole(s.slo_ms) + " ms" }],
    label: last ? `${r.name}: p99 ${ms(last.p99_ms, "milliseconds")}, objective ${whole(s.slo_ms)}` : "No data yet",
  });
  setText(section.querySelector("[data-sheds]"), c.text);
}

const feedTitle = { plain: "plain: no limits", limited: "limited: a rate for each topic" };

function showFeed(s) {
  const a = s.feed;
  byId("feed").hidden = !a;
  if (!a) return;
  setText(byId("topics"), `${a.topics} topics of ${whole(a.rate)} messages a second each go to one consumer, which takes ${a.work_ms} ms for a message; then one more topic sends ${whole(a.flood)} a second. ` +
    `With limits each topic has ${whole(a.limit)} a second and a burst of ${whole(a.burst)}. The figures are of the ${a.topics} topics; both runs get the same messages at the same instants.`);
  for (const r of a.runs) {
    const sum = (of) => r.services.reduce((n, x) => n + of(x), 0);
    const dropped = sum((x) => Object.values(x.shed || {}).reduce((n, y) => n + y, 0));
    showRun(s, a, r, { id: "feed-" + r.name, into: "feeds", title: feedTitle[r.name], rate: a.load, what: "messages", caption: "Messages of the other topics, 1/s", latency: "Latency until the consumer is done, ms", figures: figuresOfRun(r, "in the flood"),
      text: `Given up so far: ${whole(r.totals.timed_out)}. Of the flood ${whole(r.flooded.sent)} messages were sent and ${whole(r.flooded.came)} came; ${whole(sum((x) => x.waiting))} wait at the broker and ${whole(dropped)} were dropped.` });
  }
}

function shedTable(table, act) {
  const reasons = [...new Set(act.sheds.map((shed) => shed.reason))];
  if (act.name === "plain") {
    const rows = [["timed out", act.totals.timed_out], ["in flight", act.in_flight]];
    table.replaceChildren(element("tbody", {}, ...rows.map(([name, n]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, whole(n))))));
    return;
  }
  const count = (where, reason) => act.sheds.filter((x) => x.where === where && x.reason === reason).reduce((n, x) => n + x.count, 0);
  const head = element("tr", {}, element("th", { scope: "col" }, "refused at"), ...places.map((p) => element("th", { scope: "col" }, p)));
  const rows = reasons.map((r) => element("tr", {}, element("th", { scope: "row" }, words(r)), ...places.map((p) => element("td", {}, whole(count(p, r))))));
  if (!rows.length) rows.push(element("tr", {}, element("th", { scope: "row" }, "nothing yet"), ...places.map(() => element("td", {}, "0"))));
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
}

function storeText(act) {
  const store = act.services.find((service) => service.name === "store");
  if (!store || !store.work) return "";
  const w = store.work;
  if (act.outcome) {
    const vain = w.finished ? (100 * w.wasted) / w.finished : 0;
    return `${vain.toFixed(vain < 9.95 ? 1 : 0)} % of the store's work was for callers who had given up.`;
  }
  let text = `Store: ${w.busy} of ${w.workers} workers busy, ${whole(w.queued)} in their queue`;
  if (store.gated) text += `; gate: ${store.running} of ${store.limit} slots, ${store.granted} of ${store.credits} credits granted`;
  return text + ".";
}

function recoveryText(s, act) {
  const r = act.outcome.recovery;
  if (r < 0) return `not within ${(s.steps.at(-1).to - s.steps.at(-1).from).toFixed(1)} s`;
  return r === 0 ? "at once" : r.toFixed(2) + " s";
}

const complete = (s) => s.acts.length === 2 && s.acts.every((act) => act.outcome);

function showResult(s) {
  byId("result").hidden = !complete(s);
  if (!complete(s)) return;
  const slo = s.slo_ms, capacity = s.capacity.rate;
  const figures = s.acts.map((act) => figuresOf(s, act));
  const rows = [
    ["offered", (f) => whole(f.offered) + "/s"],
    ["goodput", (f) => `${whole(f.goodput)}/s, ${whole((100 * f.goodput) / capacity)} % of capacity`, (f) => f.goodput >= 0.9 * capacity],
    ["objective met", (f) => (100 * f.met).toFixed(1) + " % of offered"],
    ["p50 of answers", (f) => took(f, f.p50)],
    ["p99 of answers", (f) => took(f, f.p99), (f) => !unserved(f) && f.p99 <= slo],
    ["refused", (f) => whole(f.refused) + "/s"],
    ["timed out", (f) => whole(f.timedOut) + "/s"],
    ["recovery after the overload", (f, act) => recoveryText(s, act), (f, act) => act.outcome.recovery >= 0 && act.outcome.recovery <= 1],
    ["generator's lag, p99", (f, act) => act.outcome.lag_p99_ms.toFixed(2) + " ms" + (act.outcome.valid ? "" : ", does not count"), (f, act) => act.outcome.valid],
  ];
  const head = element("tr", {}, element("th", { scope: "col" }, "at " + overloadOf(s).name + " of " + whole(capacity) + "/s"), ...s.acts.map((act) => element("th", { scope: "col" }, act.name)));
  byId("comparison").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows.map(([name, show, good]) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...s.acts.map((act, i) =>
      element("td", good ? { class: good(figures[i], act) ? "good" : "bad" } : {}, show(figures[i], act)))))));
  setText(byId("report"), s.report ? "Report with plots: " + s.report : "");
}

function showTries(s) {
  byId("search").hidden = s.acts.length > 0;
  const most = Math.max(1, ...s.capacity.tries.map((t) => t.goodput));
  byId("tries").replaceChildren(...s.capacity.tries.map((t) => {
    const bar = drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
    bar.append(drawn("rect", { width: (100 * t.goodput) / most, height: 10 }));
    return element("div", { class: "try" }, element("span", {}, t.in_flight ? t.in_flight + " in flight" : "open, " + whole(t.load) + "/s"), bar,
      element("span", {}, `${whole(t.goodput)}/s, p99 ${ms(t.p99_ms)}`));
  }));
}

// describe tells the state in sentences, for those who cannot see the charts.
function describe(s) {
  const parts = [];
  if (s.capacity.rate) parts.push(`The three services can do ${whole(s.capacity.rate)} requests per second within ${whole(s.slo_ms)} ms.`);
  for (const act of s.acts) {
    const f = figuresOf(s, act);
    if (!f) continue;
    const when = act.outcome ? `At ${overloadOf(s).name} the ${act.name} services` : `Now, at ${stepAt(s, act.elapsed).name}, the ${act.name} services`;
    parts.push(`${when} answer ${whole(f.goodput)} of ${whole(f.offered)} requests per second in time${withP99(f)}; ` +
      `${whole(act.totals.refused)} were refused and ${whole(act.totals.timed_out)} timed out in all.` +
      (act.outcome ? ` Recovery after the overload: ${recoveryText(s, act)}.` : ""));
    if (act.outcome && !act.outcome.valid) parts.push(`This act does not count: ${act.outcome.invalid.join(", ")}.`);
  }
  for (const t of s.tenants ? s.tenants.each : []) {
    const f = figuresOfTenant(s.tenants, t);
    if (!f || !f.offered) continue;
    parts.push(`Tenant ${t.name} ${f.when === "now" ? "now has" : "had, during the burst,"} ${whole(f.goodput)} of ${whole(f.offered)} requests per second answered in time${withP99(f)}` +
      (f.when === "during" && t.steps[0].offered ? `; before it, ${whole(t.steps[0].goodput)} of ${whole(t.steps[0].offered)}${withP99({ offered: t.steps[0].offered, p99: t.steps[0].p99_ms })}.` : "."));
    if (t.outcome && !t.outcome.valid) parts.push(`Tenant ${t.name}'s load does not count: ${t.outcome.invalid.join(", ")}.`);
  }
  for (const o of s.checkout ? s.checkout.orders : []) {
    const c = flood(o, "checkouts"), r = flood(o, "reads");
    if (c && r) parts.push(`In the flood of reads, with ${o.name}, checkouts took ${whole(c.mean_ms)} ms and reads ${whole(r.mean_ms)} ms in the mean.`);
    for (const k of o.kinds) if (k.outcome && !k.outcome.valid) parts.push(`The ${k.name} of ${o.name} do not count: ${k.outcome.invalid.join(", ")}.`);
  }
  for (const r of s.culprit ? s.culprit.runs : []) {
    const f = figuresOfRun(r, "with the report");
    if (!f) continue;
    parts.push(`${r.name === "plain" ? "Without control" : "With it"}, ${f.when === "now" ? "now" : "while a report wanted the store's lock"}, ${whole(f.goodput)} of ${whole(f.offered)} reads per second are answered in time. ${fateText(r)}`.trim());
    if (r.outcome && !r.outcome.valid) parts.push(`The ${r.name} run does not count: ${r.outcome.invalid.join(", ")}.`);
  }
  for (const r of s.feed ? s.feed.runs : []) {
    const f = figuresOfRun(r, "in the flood");
    if (!f) continue;
    parts.push(`${r.name === "plain" ? "Without limits" : "With a limit for each topic"}, ${f.when === "now" ? "now" : "while one topic flooded the broker"}, the consumer is done in time with ${whole(f.goodput)} of ${whole(f.offered)} messages per second of the other topics` +
      withP99(f) + ".");
    if (r.outcome && !r.outcome.valid) parts.push(`The ${r.name} run of the broker does not count: ${r.outcome.invalid.join(", ")}.`);
  }
  return parts.length ? parts : [s.note];
}

let announced = "";
let sections = 0;
function show(s) {
  setText(byId("facts"), `seed ${s.seed} · SLO ${whole(s.slo_ms)} ms · ${s.connections} connections` + (s.capacity.rate ? ` · capacity ${whole(s.capacity.rate)}/s` : ""));
  byId("progress").value = s.share;
  const seconds = Math.floor(s.elapsed);
  setText(byId("clock"), Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0"));
  const running = s.acts.find((act) => act.running);
  const sharing = s.tenants && s.tenants.running ? s.tenants.steps.find((step) => s.tenants.elapsed < step.to) || s.tenants.steps.at(-1) : null;
  const order = s.checkout ? s.checkout.orders.find((o) => o.running) : null;
  const shopping = order ? s.checkout.steps.find((step) => order.elapsed < step.to) || s.checkout.steps.at(-1) : null;
  const run = s.culprit ? s.culprit.runs.find((r) => r.running) : null;
  const seizing = run ? s.culprit.steps.find((step) => run.elapsed < step.to) || s.culprit.steps.at(-1) : null;
  const feed = s.feed ? s.feed.runs.find((r) => r.running) : null;
  const flooding = feed ? s.feed.steps.find((step) => feed.elapsed < step.to) || s.feed.steps.at(-1) : null;
  const note = byId("note");
  note.replaceChildren(...(running && running.points.length ? [element("b", {}, stepAt(s, running.elapsed).name + " of " + whole(s.capacity.rate) + "/s"), " "] : []),
    ...(sharing || shopping || seizing || flooding ? [element("b", {}, (sharing || shopping || seizing || flooding).name), " "] : []), s.note + (s.error ? ": " + s.error : ""));
  showTries(s);
  byId("acts").hidden = s.acts.length === 0;
  for (const act of s.acts) showAct(s, act);
  showTenants(s);
  showCheckout(s);
  showCulprit(s);
  showFeed(s);
  showResult(s);
  byId("summary").replaceChildren(...describe(s).map((text) => element("p", {}, text + " ")));
  // Screen readers hear of scenes and steps, not of every figure.
  const scene = s.scene + (flooding ? " " + feed.name + " " + flooding.name : "") + (seizing ? " " + run.name + " " + seizing.name : "") + (shopping ? " " + order.name + " " + shopping.name : "") + (sharing ? " " + sharing.name : "") + (running ? " " + stepAt(s, running.elapsed).name : "");
  if (scene !== announced) {
    announced = scene;
    setText(byId("announce"), s.note + (flooding ? ", " + flooding.name : "") + (seizing ? ", " + seizing.name : "") + (shopping ? ", " + shopping.name : "") + (sharing ? ", " + sharing.name : "") + (running ? ", load " + stepAt(s, running.elapsed).name : ""));
  }
  // A section that is new makes those beside it narrower, and these are drawn already.
  const now = document.querySelectorAll("main section").length;
  if (now !== sections) {
    sections = now;
    show(s);
    return;
  }
  document.body.dataset.number = s.number;
  document.body.dataset.scene = s.scene;
}

let newest = null;
const events = new EventSource("events");
events.addEventListener("state", (e) => { newest = JSON.parse(e.data); show(newest); });
events.addEventListener("end", () => events.close());
events.onerror = () => {
  // The demo is over, or was killed: what came last stays on the page.
  if (newest && ["done", "interrupted", "failed"].includes(newest.scene)) events.close();
};
addEventListener("resize", () => { if (newest) show(newest); });

// The live page: fetches /data every second and draws it. No libraries, nothing from elsewhere.
"use strict";

const SLOWEST = 8000; // milliseconds between two looks at the data, after failures
const SPAN = 300, LEAST_SPAN = 60; // seconds that plots show
const GUTTER = 54; // pixels for the labels of the vertical axis
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

// --- numbers as texts: [number, unit] ---

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : 2);
}
function scaled(value, unit, steps) {
  let [name, size] = steps[0];
  for (const [next, least] of steps) if (Math.abs(value) >= least * 0.9995) [name, size] = [next, least];
  return [digits(value / size), name + unit];
}
const SI = [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]];
const TIME = [["ns", 1e-9], ["µs", 1e-6], ["ms", 1e-3], ["s", 1]];
const plain = (unit) => (value) => {
  const [number, prefix] = Number.isInteger(value) && Math.abs(value) < 1000 ? [String(value), ""] : scaled(value, "", SI);
  return [number, [prefix, unit].filter(Boolean).join(" ")];
};
const text = (format, value) => (value == null ? "–" : format(value).filter(Boolean).join(" "));
const bytes = (value) => scaled(value, "B", [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]]);
const seconds = (value) => (value === 0 ? ["0", "s"] : scaled(value, "", TIME));
const tick = (format, value) => (value === 0 ? "0" : text(format, value).replace(/(\.\d*?)0+(?=\s|$)/, "$1").replace(/\.(?=\s|$)/, ""));
const percent = (value) => [digits(value * 100), "%"];
const whole = (value) => Number(value).toLocaleString("en-US");
const ago = (value) => {
  const s = Math.round(value);
  return s < 1 ? "now" : s < 120 ? `−${s} s` : s % 60 ? `−${Math.floor(s / 60)} min ${s % 60} s` : `−${s / 60} min`;
};

// --- what is shown ---

const data = { points: [], about: null, last: 0 };
const newest = (name) => { // the last known value
  for (let i = data.points.length - 1; i >= 0; i--) if (data.points[i][name] != null) return data.points[i][name];
  return null;
};
const sum = (...values) => (values.every((v) => v == null) ? null : values.reduce((all, v) => all + (v ?? 0), 0));
const isEnded = () => Boolean(data.about) && ["ended", "failed"].includes(data.about.state);
const isSpark = () => Boolean(data.about) && data.about.unit === "micro-batch";
const sides = (name) => (data.points.length && newest(`${name}_right`) == null
  ? [["rows", `${name}_left`]] : [["left", `${name}_left`], ["right", `${name}_right`]]);

const CARDS = [
  {
    title: "Throughput", format: plain("rows/s"), short: plain(""), series: () => sides("rows"),
    value: () => (isEnded() ? average("rows") : sum(newest("rows_left"), newest("rows_right"))),
    detail: () => (isEnded() ? "mean of the seconds with rows" : `${text(plain("matches/s"), newest("matches"))}`),
  },
  {
    title: () => (isSpark() ? "Micro-batch duration" : "Push latency, 99th percentile"),
    format: seconds, series: () => (isSpark()
      ? [["duration", "p50"]] : [["p50", "p50"], ["p99", "p99"], ["max", "longest"]]),
    value: () => (isEnded() ? data.about.p99 : null) ?? newest("p99"),
    detail: () => (data.about ? `${whole(data.about.pushes)} ${data.about.unit}${data.about.pushes === 1 ? "" : "es"} ${soFar()}` : ""),
  },
  {
    title: "Rows in the window", format: plain("rows"), short: plain(""), series: () => sides("stored"),
    value: () => sum(newest("stored_left"), newest("stored_right")), detail: fill,
  },
  {
    title: "Matches per row", format: plain(""), series: () => [["matches per row", "match_rate"]], empty: () => (data.about && newest("match_rate") == null ? "no rows yet" : ""),
    value: () => (isEnded() ? data.about.totals.matches / Math.max(1, data.about.totals.rows_left + data.about.totals.rows_right) : newest("match_rate")),
    detail: () => (data.about ? `${whole(data.about.totals.matches)} matches ${soFar()}` : ""),
  },
  {
    title: "Late rows", format: plain("rows/s"), short: plain(""), series: () => [["rows/s", "late"]],
    empty: () => (data.about && !late() ? "no late rows" : ""),
    value: () => (data.about ? late() : null), valueFormat: (value) => [whole(value), value === 1 ? "row" : "rows"],
    detail: () => {
      const all = data.about ? late() + data.about.totals.rows_left + data.about.totals.rows_right : 0;
      return all ? `${text(percent, late() / all)} of all rows` : "";
    },
  },
  {
    title: () => (isSpark() ? "State written by a micro-batch" : "Memory"), format: bytes,
    series: () => [[isSpark() ? "written" : "memory", "memory"]],
    value: () => newest("memory"),
    detail: () => {
      const stored = sum(newest("stored_left"), newest("stored_right"));
      if (isSpark()) return "files of sorted rows";
      return stored > 0 ? `${text(bytes, newest("memory") / stored)} for each row in the window` : "";
    },
  },
];
function soFar() { return isEnded() ? "in all" : "so far"; }
function late() { return data.about.totals.late_left + data.about.totals.late_right; }
function average(name) {
  const known = data.points.map((p) => sum(p[`${name}_left`], p[`${name}_right`])).filter((v) => v > 0);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}
function fill() {
  if (!data.about) return "";
  const [left, right] = data.about.limits;
  if (left == null) return `up to ${text(plain("rows"), Math.max(0, ...visible().map((p) => sum(p.stored_left, p.stored_right) ?? 0)))} in the time shown`;
  const room = data.about.sides.length === 1 ? left : left + right;
  return `${text(percent, (sum(newest("stored_left"), newest("stored_right")) ?? 0) / room)} of ${whole(room)}`;
}

// --- elements ---

function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const change = (node, value) => { if (node.textContent !== value) node.textContent = value; };

class Card {
  constructor(about) {
    this.about = about;
    this.title = element("h2");
    this.when = element("span", { class: "when", "aria-hidden": "true" });
    this.value = element("p", { class: "value" });
    this.detail = element("p", { class: "detail" });
    this.legend = element("div", { class: "legend", "aria-hidden": "true" });
    this.plot = element("svg:svg", { class: "plot", tabindex: "0", role: "slider", "aria-orientation": "horizontal" });
    this.figure = element("figure", { class: "card" }, element("figcaption", {}, element("div", { class: "heading" }, this.title, this.when), this.value, this.detail), this.legend, this.plot);
    this.plot.addEventListener("pointermove", (event) => moveTo(this.timeAt(event.offsetX)));
    this.plot.addEventListener("pointerleave", () => moveTo(null));
    this.plot.addEventListener("blur", () => moveTo(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const shown = visible();
    if (!shown.length) return;
    const at = shown.findIndex((point) => point === pointAt());
    const from = at < 0 ? shown.length - 1 : at;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: shown.length - 1, PageUp: from - 10, PageDown: from + 10 }[event.key];
    if (event.key === "Escape") moveTo(null);
    else if (to === undefined) return;
    else moveTo(shown[Math.min(Math.max(to, 0), shown.length - 1)].time);
    event.preventDefault();
  }

  draw() {
    const { about } = this, title = typeof about.title === "function" ? about.title() : about.title;
    change(this.title, title);
    const current = about.value(), [number, unit] = current == null ? ["–", ""] : (about.valueFormat ?? about.format)(current);
    if (this.shown !== number + unit) {
      this.shown = number + unit;
      this.value.replaceChildren(number, element("small", {}, unit));
    }
    change(this.detail, about.detail() || "\u00a0");
    this.drawPlot(title);
  }

  drawPlot(title) {
    const width = this.plot.clientWidth, height = this.plot.clientHeight;
    if (!width) return;
    const series = this.about.series(), names = ["one", "two", "three"], shown = visible(), range = span();
    const largest = Math.max(0, ...shown.flatMap((p) => series.map(([, name]) => p[name] ?? 0)));
    const step = niceStep(largest);
    const top = step * Math.max(1, Math.ceil(largest / step - 1e-9));
    const ticks = []; // three at most, and the base line
    for (let value = 0; value <= top * 1.0001; value += step) ticks.push(value);
    const short = this.about.short ?? this.about.format;
    const labels = ticks.map((value) => tick(short, clean(value)));
    const box = { left: GUTTER, right: width - 6, top: 8, bottom: height - 20 };
    const x = (time) => box.right - (range.end - time) / range.length * (box.right - box.left);
    const y = (value) => box.bottom - value / top * (box.bottom - box.top);
    this.timeAt = (px) => range.end - (box.right - px) / (box.right - box.left) * range.length;
    const parts = [];
    ticks.forEach((value, i) => {
      const line = Math.round(y(value)) + 0.5;
      parts.push(element("svg:line", { class: i ? "grid" : "base", x1: box.left, x2: box.right, y1: line, y2: line }));
      parts.push(mark(labels[i], box.left - 7, line + 4, "end"));
    });
    const every = [10, 15, 30, 60, 120].find((s) => range.length / s <= Math.max(2, (box.right - box.left) / 70)) ?? 150;
    for (let past = 0; past <= range.length + 0.01; past += every) {
      const at = x(range.end - past);
      if (at < box.left - 1) break;
      parts.push(mark(past || !isEnded() ? ago(past) : "end", past ? at : box.right, height - 5, past ? (at < box.left + 16 ? "start" : "middle") : "end"));
    }
    const empty = shown.length ? this.about.empty?.() : isSpark() ? "waiting for a micro-batch" : "waiting for figures";
    if (empty) parts.push(mark(empty, (box.left + box.right) / 2, (box.top + box.bottom) / 2 + 4, "middle", "empty"));
    const lines = []; // the first one on top
    series.forEach(([, name], i) => {
      const runs = runsOf(shown, name).map((run) => run.map((p) => [x(p.time), y(p[name])]));
      const line = runs.map((run) => (run.length > 1 ? "M" + run.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")
        : `M${(run[0][0] - 0.8).toFixed(1)} ${run[0][1].toFixed(1)}h1.6`)).join("");
      if (series.length === 1) {
        const area = runs.filter((run) => run.length > 1).map((run) => "M" + run.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")
          + `L${run.at(-1)[0].toFixed(1)} ${box.bottom}L${run[0][0].toFixed(1)} ${box.bottom}Z`).join("");
        parts.push(element("svg:path", { class: "area", d: area }));
      }
      lines.unshift(element("svg:path", { class: names[i], d: line }));
    });
    parts.push(...lines);
    const chosen = pointAt(), shownPoint = chosen ?? shown.at(-1);
    if (chosen) {
      const at = Math.round(x(chosen.time)) + 0.5;
      parts.push(element("svg:line", { class: "cursor", x1: at, x2: at, y1: box.top, y2: box.bottom }));
      series.forEach(([, name], i) => { if (chosen[name] != null) parts.push(element("svg:circle", { class: names[i], cx: at, cy: y(chosen[name]), r: 4 })); });
    }
    this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.plot.replaceChildren(...parts);
    const values = series.map(([label, name]) => [label, shownPoint ? text(short, shownPoint[name]) : "–"]);
    this.legend.replaceChildren(...values.map(([label, value], i) => element("span", {}, element("i", { class: names[i] }), label, element("b", {}, value))));
    change(this.when, chosen ? ago(range.end - chosen.time) : "");
    const at = shownPoint ? shown.indexOf(shownPoint) : 0, when = chosen ? `${ago(range.end - chosen.time).replace("−", "")} ago`.replace("now ago", "now") : "now";
    for (const [name, value] of Object.entries({
      "aria-label": `${title}, plot of the last ${Math.round(range.length)} seconds`, "aria-valuemin": 0, "aria-valuemax": Math.max(shown.length - 1, 0),
      "aria-valuenow": at, "aria-valuetext": `${when}: ${values.map((pair) => pair.join(" ")).join(", ")}`,
    })) this.plot.setAttribute(name, value);
  }
}

const clean = (value) => Number(value.toPrecision(6));
const mark = (label, x, y, anchor, name = "tick") => element("svg:text", { class: name, x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor }, label);
function niceStep(largest) {
  if (!(largest > 0)) return 1;
  const rough = largest / 3, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.9999);
}
function runsOf(points, name) { // without the gaps where nothing is known
  const runs = [];
  let run = null;
  for (const point of points) {
    if (point[name] == null) run = null;
    else if (run) run.push(point);
    else runs.push(run = [point]);
  }
  return runs;
}

// --- time ---

let cursor = null; // a time that the user looks at
function span() {
  const last = data.points.length ? data.points.at(-1).time : 0, begin = data.points.length ? data.points[0].time : 0;
  const end = isSpark() && !isEnded() ? data.about.now : last;
  const needed = Math.min(Math.max(end - begin, LEAST_SPAN), SPAN);
  return { end, length: [60, 90, 120, 180, 240, SPAN].find((length) => length >= needed - 0.5) ?? SPAN };
}
function visible() {
  const { end, length } = span();
  return data.points.filter((point) => point.time >= end - length - 0.5);
}
function pointAt() {
  if (cursor === null) return null;
  let best = null;
  for (const point of visible()) if (!best || Math.abs(point.time - cursor) < Math.abs(best.time - cursor)) best = point;
  return best;
}
function moveTo(time) {
  if (time === cursor) return;
  cursor = time;
  draw();
}

// --- the rest of the page ---

const STATES = { running: "Running", idle: "Waiting for rows", ended: "Ended", failed: "Failed", lost: "Connection lost", connecting: "Connecting", paused: "Paused" };
function show(state) {
  const node = byId("state");
  node.dataset.state = state;
  change(node, STATES[state] ?? state);
  document.title = data.about ? `${STATES[state]} · ${data.about.title} · slidejoin` : "slidejoin";
}
function notice(message, kind = "") {
  const node = byId("notice");
  node.hidden = !message;
  node.dataset.kind = kind;
  change(node, message);
}
function pairs(node, lines) {
  const made = lines.map((line) => line.join("\n")).join("\n\n");
  if (node.dataset.made === made) return; // a screen reader is not disturbed
  node.dataset.made = made;
  const isFacts = node.id === "facts";
  node.replaceChildren(...lines.flatMap(([name, value]) => {
    const both = [element("dt", {}, name), element("dd", {}, value)];
    return isFacts ? [element("div", {}, ...both)] : both;
  }));
}
function drawAbout() {
  const about = data.about;
  change(byId("title"), about.title);
  const facts = [...about.facts];
  if (about.watermark) facts.push(["Watermark", about.watermark.replace(/(\.\d{3})\d+/, "$1") + delay(about)]);
  pairs(byId("facts"), facts);
  pairs(byId("plan"), about.explanation);
  const totals = about.totals, names = [["rows", "Rows in time"], ["late", "Late"], ["null", "Null keys or times"], ["stored", "In the window"]];
  const columns = about.sides;
  const rows = names.filter(([name]) => totals[`${name}_left`] != null)
    .map(([name, label]) => [label, ...columns.map((side) => whole(totals[`${name}_${side}`]))]);
  rows.push(["Matches", ...columns.slice(1).map(() => ""), whole(totals.matches)]);
  const made = JSON.stringify(rows), table = byId("totals");
  if (table.dataset.made === made) return;
  table.dataset.made = made;
  table.replaceChildren(
    element("thead", {}, element("tr", {}, element("td"), ...columns.map((side) => element("th", { scope: "col" }, columns.length === 1 ? "rows" : side)))),
    element("tbody", {}, ...rows.map(([label, ...cells]) => element("tr", {}, element("th", { scope: "row" }, label), ...cells.map((cell) => element("td", {}, cell))))));
}
function delay(about) {
  const behind = about.watermark_time == null || isEnded() ? null : about.now - about.watermark_time;
  return behind == null || behind < 0 || behind > 86400 ? "" : `, ${text(seconds, behind)} behind the clock`;
}
const cards = CARDS.map((about) => new Card(about));
function draw() { for (const card of cards) card.draw(); }

// --- the connection ---

let every = 1000; // milliseconds between two looks at the data: as often as there are points
let failures = 0, isPaused = false, timer = 0;
async function look() {
  clearTimeout(timer);
  if (isPaused) return;
  try {
    const response = await fetch(`/data?after=${data.last}`, { cache: "no-store", signal: AbortSignal.timeout(4000) });
    if (!response.ok) throw new Error(String(response.status));
    take(await response.json());
    failures = 0;
  } catch {
    failures += 1;
    if (failures > 1) lost();
  }
  if (!(failures > 1 && isEnded())) timer = setTimeout(look, Math.min(every * 2 ** Math.max(failures - 2, 0), SLOWEST));
}
function ending() {
  return data.about.state === "failed" ? `The query has failed: ${data.about.reason}` : `The join has ended (${data.about.reason}).`;
}
function take(answer) {
  const { points, fields, last, ...about } = answer;
  if (last < data.last) data.points = []; // another server on the same port
  data.points.push(...points.map((point) => Object.fromEntries(point.map((value, i) => [fields[i], value]))));
  data.points.splice(0, data.points.length - 400);
  data.last = last;
  data.about = about;
  every = about.every * 1000;
  data.received = new Date();
  if (isPaused) return;
  show(about.state);
  notice(isEnded() ? `${ending()} These are its last figures.` : "", about.state === "failed" ? "lost" : "");
  byId("pause").hidden = isEnded();
  drawAbout();
  draw();
}
function lost() {
  if (isPaused) return;
  const since = data.received ? ` The figures are those of ${data.received.toLocaleTimeString("en-GB")}.` : "";
  if (isEnded()) notice(`${ending()} The page has lost the connection to its process.${since}`, data.about.state === "failed" ? "lost" : "");
  else { show("lost"); notice(`The page has lost the connection: the process has ended, or does not answer.${since}`, "lost"); }
}
byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", String(isPaused));
  change(byId("pause"), isPaused ? "Resume" : "Pause");
  if (isPaused) { clearTimeout(timer); show("paused"); } else look();
});
byId("cards").append(...cards.map((card) => card.figure));
new ResizeObserver(draw).observe(byId("cards"));
draw();
look();

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Elements, numbers as text, colours, canvases. Texts of hosts reach the page by textContent only.

/** Makes an element. `of`: properties, `class`, `on` with listeners, other attributes; children are elements or text. */
function make(tag, of = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(of)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [kind, listener] of Object.entries(value)) made.addEventListener(kind, listener);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return made;
}

function find(id) {
  return document.getElementById(id);
}

function scaled(value, base, units) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  let at = 0;
  while (Math.abs(value) >= base && at + 1 < units.length) {
    value /= base;
    at += 1;
  }
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[at]}`;
}

const words = {
  rate: (bytes) => scaled(bytes, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]),
  bytes: (bytes) => scaled(bytes, 1000, ["B", "kB", "MB", "GB", "TB"]),
  percent: (value) => (value === null || value === undefined ? "–" : `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`),
  share: (value) => words.percent(value === null || value === undefined ? value : value * 100),
  us: (value) => scaled(value, 1000, ["µs", "ms", "s"]),
  ns: (value) => scaled(value, 1000, ["ns", "µs", "ms", "s"]),
  degrees: (value) => (value === null || value === undefined ? "–" : `${value.toFixed(0)} °C`),
  count: (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en")),
  duration: (s) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const at = parts.findIndex(([unit]) => s >= unit);
    if (at < 0) return "0 s";
    const first = Math.floor(s / parts[at][0]);
    const rest = at < 3 ? Math.floor((s - first * parts[at][0]) / parts[at + 1][0]) : 0;
    return `${first} ${parts[at][1]}${rest ? ` ${rest} ${parts[at + 1][1]}` : ""}`;
  },
  clock: (at_s) => {
    const at = new Date(at_s * 1000);
    const two = (number) => String(number).padStart(2, "0");
    return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  },
  day: (at_s) => new Date(at_s * 1000).toLocaleDateString("en-CA"),
};

/** The value of a custom property of the style. */
function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Calls `then` when the reader's choice of light or dark changes. */
function onTheme(then) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", then);
}

function parsedColour(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

function mixed(stops, share) {
  const place = share * (stops.length - 1);
  const at = Math.min(Math.floor(place), stops.length - 2);
  const part = stops[at].map((value, of) => Math.round(value + (stops[at + 1][of] - value) * (place - at)));
  return `rgb(${part.join(",")})`;
}

/** The colours of the heat from none to most, in this number of steps. */
function heatColours(steps) {
  const stops = [0, 1, 2, 3, 4].map((at) => ink(`--heat-${at}`)).map(parsedColour);
  return Array.from({ length: steps + 1 }, (_, at) => mixed(stops, at / steps));
}

/** A canvas that is empty and as sharp as the screen: its pen and its size; null while it is not shown. */
function cleared(canvas) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || !height) return null;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "11px system-ui, sans-serif";
  return { pen, width, height };
}

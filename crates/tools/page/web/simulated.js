// SPDX-License-Identifier: Apache-2.0 OR MIT
// The topology of a simulation, and the heat of its links over virtual time.
//
// Data: { title, vertices: [{ name, router, at: [x, y] or null }], links: [[a, b, bend, failures]], frames }. `failures` is
// null or [[time in ns, whether it is up again]]. `frames` is { ends_ns, heat }: ends of the intervals, and in each of them
// a character for each direction of each link, the 64 digits of base64 for shares from 0 to 1. The element `data` holds
// it, or the server sends it: events `structure`, `frames` and `end`.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Float32Array(128);
[...DIGITS].forEach((digit, at) => (VALUES[digit.charCodeAt(0)] = at / 63));
const NO_FRAMES = { ends_ns: [], heat: "" };
const run = { data: null, frames: NO_FRAMES, mean: null, playing: null, isLive: false };

const view = new TopologyView(find("topology"), {
  describe: (thing) => (thing.kind === "vertex" ? describeVertex(thing.at) : describeLink(thing.at)),
  chosen: () => showChart(),
  activated: () => {},
});
const chart = new Chart(find("over-time"), words.share, words.ns);

function takeStructure(data) {
  run.data = data;
  const { vertices, links } = data;
  const each = new Array(vertices.length).fill(0);
  links.forEach(([a, b]) => {
    each[a] += 1;
    each[b] += 1;
  });
  const graph = {
    vertices: vertices.map((vertex, at) => ({
      key: String(at), label: vertex.name, shape: vertex.router ? "router" : "host",
      size: vertex.router || each[at] !== 1 ? 1 : 0.6, x: vertex.at ? vertex.at[0] : undefined, y: vertex.at ? vertex.at[1] : undefined,
    })),
    links: links.map(([a, b, bend], at) => ({ key: String(at), a, b, bend, state: "up" })),
  };
  const routers = vertices.filter((vertex) => vertex.router).length;
  const nodes = vertices.length - routers;
  find("simulated-title").textContent = data.title;
  find("counts").textContent = `${routers ? `${words.count(routers)} routers, ` : ""}${words.count(nodes)} nodes, ${words.count(links.length)} links`;
  view.setGraph(graph);
}

function takeFrames(frames) {
  const slider = find("when");
  const isLast = slider.value === slider.max && Number(slider.max) > 0;
  run.frames = frames;
  const count = run.data.links.length * 2;
  const { ends_ns: ends, heat } = frames;
  run.mean = new Float32Array(count);
  ends.forEach((end, frame) => {
    const span = (end - (frame ? ends[frame - 1] : 0)) / (ends[ends.length - 1] || 1);
    for (let at = 0; at < count; at += 1) run.mean[at] += span * VALUES[heat.charCodeAt(frame * count + at)];
  });
  slider.max = String(ends.length);
  if (isLast || (run.isLive && slider.value !== "0")) slider.value = slider.max;
  showFrame();
  showChart();
}

/** The share of a link's direction; frame 0 is the whole run. */
function share(frame, link, direction) {
  const at = link * 2 + direction;
  if (!run.mean) return null;
  if (frame === 0) return run.mean[at];
  return VALUES[run.frames.heat.charCodeAt((frame - 1) * run.data.links.length * 2 + at)];
}

function interval(frame) {
  const { ends_ns: ends } = run.frames;
  if (frame === 0) return [0, ends[ends.length - 1] || 0];
  return [frame > 1 ? ends[frame - 2] : 0, ends[frame - 1]];
}

/** Whether a link is down at any time of an interval. */
function isDown(failures, [from, to]) {
  let down = null;
  for (const [at, isUp] of failures || []) {
    if (!isUp && down === null) down = at;
    if (isUp && down !== null) {
      if (down < to && at > from) return true;
      down = null;
    }
  }
  return down !== null && down < to;
}

function showFrame() {
  if (!run.data) return;
  const frame = Number(find("when").value);
  const now = interval(frame);
  const levels = run.data.links.map((_, at) => {
    const [there, back] = [share(frame, at, 0), share(frame, at, 1)];
    return there === null ? null : Math.max(there, back);
  });
  const isRelative = find("relative").checked;
  const most = levels.reduce((a, b) => Math.max(a, b || 0), 0);
  const top = isRelative && most > 0 ? most : 1;
  find("full").textContent = isRelative ? words.share(top) : "always busy";
  run.data.links.forEach(([, , , failures], at) => (view.graph.links[at].state = isDown(failures, now) ? "gone" : "up"));
  view.setLevels(levels.map((level) => (level === null ? null : level / top)));
  find("interval").textContent = frame === 0 ? "whole run" : `${words.ns(now[0])} – ${words.ns(now[1])}`;
  find("interval").value = find("interval").textContent;
}

function describeVertex(at) {
  const vertex = run.data.vertices[at];
  const frame = Number(find("when").value);
  const lines = [vertex.router ? `router ${vertex.name}` : vertex.name];
  run.data.links.forEach(([a, b], link) => {
    if ((a !== at && b !== at) || lines.length > 12) return;
    const other = run.data.vertices[a === at ? b : a].name;
    lines.push(`to ${other}: ${words.share(share(frame, link, a === at ? 0 : 1))} out, ${words.share(share(frame, link, a === at ? 1 : 0))} in`);
  });
  return lines;
}

function describeLink(at) {
  const [a, b, , failures] = run.data.links[at];
  const names = [a, b].map((end) => run.data.vertices[end].name);
  const frame = Number(find("when").value);
  const lines = [`${names[0]} – ${names[1]}`, `${names[0]} → ${names[1]}: busy ${words.share(share(frame, at, 0))}`, `${names[1]} → ${names[0]}: busy ${words.share(share(frame, at, 1))}`];
  for (const [time, isUp] of failures || []) lines.push(`${isUp ? "up again" : "fails"} at ${words.ns(time)}`);
  return lines;
}

function showChart() {
  if (!run.data || !run.mean) return;
  const { ends_ns: ends } = run.frames;
  const over = (name, of) => ({ name, points: ends.map((end, frame) => [end, of(frame + 1)]) });
  const chosen = view.chosen;
  if (chosen && chosen.kind === "link") {
    const [a, b] = run.data.links[chosen.at];
    const names = [a, b].map((end) => run.data.vertices[end].name);
    chart.set([over(`${names[0]} → ${names[1]}`, (frame) => share(frame, chosen.at, 0)), over(`${names[1]} → ${names[0]}`, (frame) => share(frame, chosen.at, 1))], "Share of time for which the chosen link was busy");
    return;
  }
  const all = run.data.links.map((_, at) => at);
  const mean = (frame) => all.reduce((sum, at) => sum + share(frame, at, 0) + share(frame, at, 1), 0) / (2 * all.length || 1);
  const most = (frame) => all.reduce((top, at) => Math.max(top, share(frame, at, 0), share(frame, at, 1)), 0);
  chart.set([over("busiest link", most), over("mean of all", mean)], "Share of time for which links were busy, over virtual time");
}

function play(isOn) {
  clearInterval(run.playing);
  run.playing = null;
  find("play").textContent = isOn ? "Pause" : "Play";
  if (!isOn) return;
  const slider = find("when");
  if (slider.value === slider.max) slider.value = "0";
  run.playing = setInterval(() => {
    slider.value = String(Number(slider.value) + 1);
    showFrame();
    if (slider.value === slider.max) play(false);
  }, 140);
}

find("play").addEventListener("click", () => play(!run.playing));
find("when").addEventListener("input", showFrame);
find("relative").addEventListener("change", showFrame);
find("fit").addEventListener("click", () => view.fit());

if (find("data")) {
  const data = JSON.parse(find("data").textContent);
  takeStructure(data);
  takeFrames(data.frames);
} else {
  const source = new EventSource(`api/events${location.search}`);
  const say = (kind, text) => {
    find("running").hidden = false;
    find("running").className = `chip ${kind}`;
    find("running").textContent = text;
  };
  run.isLive = true;
  source.addEventListener("structure", (event) => takeStructure(JSON.parse(event.data)));
  source.addEventListener("frames", (event) => {
    const said = JSON.parse(event.data);
    say("good", said.progress);
    takeFrames(said.frames);
  });
  source.addEventListener("end", (event) => {
    source.close();
    const said = JSON.parse(event.data);
    say("", said.progress);
    takeFrames(said.frames);
  });
  source.addEventListener("error", () => say("bad", "no connection: the simulation has ended, or the address lacks its key"));
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page of a live fabric: log-in, the stream of events, and the acts of operators.

const state = { session: null, fabric: null, loads: null, route: null, source: null, tab: "hosts", history: new Map() };
const HISTORY_S = 300;

// ---- The server

async function ask(path, body) {
  const of = { headers: {}, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    of.method = "POST";
    of.headers["content-type"] = "application/json";
    if (state.session) of.headers["x-selvedge-token"] = state.session.token;
    of.body = JSON.stringify(body);
  }
  const response = await fetch(path, of);
  const said = await response.json().catch(() => ({}));
  if (response.status === 401 && path !== "api/login") leave();
  if (!response.ok) throw new Error(said.error || `the server answered ${response.status}`);
  return said;
}

async function begin() {
  try {
    state.session = await ask("api/session");
    enter();
  } catch (error) {
    leave();
  }
}

function enter() {
  find("entry").hidden = true;
  find("inside").hidden = false;
  find("whoami").textContent = `${state.session.name}, ${state.session.role}`;
  view.fit();
  listen();
  loadHistory();
}

function leave() {
  state.session = null;
  if (state.source) state.source.close();
  state.source = null;
  find("inside").hidden = true;
  find("entry").hidden = false;
  find("name").focus();
}

find("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  find("enter").disabled = true;
  find("refused").textContent = "";
  try {
    state.session = await ask("api/login", { name: find("name").value, password: find("password").value });
    find("password").value = "";
    enter();
  } catch (error) {
    find("refused").textContent = error.message;
  }
  find("enter").disabled = false;
});

find("leave").addEventListener("click", async () => {
  await ask("api/logout", {}).catch(() => {});
  leave();
});

function listen() {
  if (state.source) state.source.close();
  log.clear();
  const source = new EventSource("api/events");
  state.source = source;
  const on = (kind, then) => source.addEventListener(kind, (event) => then(JSON.parse(event.data)));
  source.addEventListener("open", () => log.clear());
  on("daemon", (said) => showDaemon(said.answers ? "good" : "bad", said.answers ? "live" : said.reason));
  on("topology", takeTopology);
  on("load", takeLoads);
  on("log", (lines) => {
    log.add(lines);
    showLog();
  });
  source.addEventListener("error", () => {
    showDaemon("bad", "no connection");
    // Whether the session has ended, or the server.
    if (source.readyState === EventSource.CLOSED && state.session) setTimeout(begin, 1000);
  });
}

function showDaemon(kind, text) {
  find("daemon-state").className = `chip ${kind}`;
  find("daemon-state").textContent = text;
}

// ---- The topology and its loads

const view = new TopologyView(find("topology"), {
  describe: (thing) => (thing.kind === "vertex" ? describeHost(state.fabric.hosts[thing.at]) : describeLink(state.fabric.links[thing.at])),
  chosen: () => showChosen(true),
  activated: (thing) => takeEnd(state.fabric.hosts[thing.at].name),
});
const hostGrid = new Grid(find("panel-hosts"), ["host", "address", "state", ">hops", "via", ">MTU", "processors", ">temperature"]);
const linkGrid = new Grid(find("panel-links"), ["link", "state", ">sent →", ">sent ←", "load", ">errors/s", ">round trip", ">queue", ">MTU"]);
const nics = new Nics(find("panel-nics"), ask);
const log = new Log(find("panel-log"));
const chart = new Chart(find("loads"), words.rate);

function takeTopology(said) {
  const hosts = said.hosts.map((host) => ({ ...host }));
  const index = new Map(hosts.map((host, at) => [host.id, at]));
  // Hosts that are gone stay while a link to them is shown.
  for (const link of said.gone) {
    for (const end of link.ends) {
      if (index.has(end.id)) continue;
      index.set(end.id, hosts.length);
      hosts.push({ id: end.id, name: end.name, isGone: true, hops: null });
    }
  }
  const made = (link, state) => {
    const [a, b] = link.ends;
    const key = `${a.id}:${a.port} ${b.id}:${b.port}`;
    return { ...link, key, state, name: `${a.name}:${a.port} – ${b.name}:${b.port}`, sent: [null, null], load: null, errors: null, trip: null, queue: null };
  };
  const links = [...said.links.map((link) => made(link, link.is_drained ? "drained" : "up")), ...said.gone.map((link) => made(link, "gone"))];
  state.fabric = { hosts, links, digest: said.digest };
  view.setGraph({
    vertices: hosts.map((host) => ({ key: host.id, label: host.name, shape: "host", state: host.isGone ? "gone" : "up" })),
    links: links.map((link) => ({ key: link.key, a: index.get(link.ends[0].id), b: index.get(link.ends[1].id), state: link.state })),
  });
  const own = hosts.find((host) => host.is_self);
  view.setMarks(new Set(own ? [own.id] : []));
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const down = said.gone.length ? `, ${said.gone.length} down` : "";
  find("summary").textContent = `${own ? `${own.name}: ` : ""}${plural(said.hosts.length, "host")}, ${plural(said.links.length, "link")}${down}; map ${said.digest.slice(0, 8)}`;
  find("host-names").replaceChildren(...hosts.slice(0, 2000).map((host) => make("option", { value: host.name })));
  if (state.loads) fillLoads(state.loads);
  if (state.route) showRoute().catch(() => {});
  showAll();
}

function takeLoads(said) {
  state.loads = said;
  if (!state.fabric || said.digest !== state.fabric.digest) return;
  fillLoads(said);
  remember(said);
  showAll();
}

function fillLoads(said) {
  const { hosts, links } = state.fabric;
  said.hosts.forEach(([processor, temperature], at) => {
    if (hosts[at]) Object.assign(hosts[at], { processor, temperature });
  });
  const most = (a, b) => (a === null ? b : b === null ? a : Math.max(a, b));
  said.links.forEach(([a, b], at) => {
    if (!links[at] || links[at].state === "gone") return;
    const errors = a[2] === null && b[2] === null ? null : (a[2] || 0) + (b[2] || 0);
    Object.assign(links[at], { sent: [a[0], b[0]], load: most(a[1], b[1]), errors, trip: most(a[3], b[3]), queue: most(a[4], b[4]) });
  });
  view.setLevels(levels());
}

/** The level of each link by the chosen measure, and the ends of the legend. */
function levels() {
  const { links } = state.fabric;
  const measure = find("measure").value;
  const busier = (link) => (link.sent[0] === null && link.sent[1] === null ? null : Math.max(link.sent[0] || 0, link.sent[1] || 0));
  const of = { load: (link) => link.load, rate: busier, errors: (link) => link.errors, trip: (link) => link.trip }[measure];
  let values = links.map(of);
  let [least, most, name] = ["idle", "100 %", null];
  let top = 100;
  if (measure === "load" && values.every((value) => value === null)) {
    // No speed is known: the busiest link is the measure.
    values = links.map(busier);
    name = words.rate;
  } else if (measure !== "load") {
    name = { rate: words.rate, errors: (value) => `${words.count(value)} per s`, trip: words.us }[measure];
  }
  if (name) {
    top = Math.max(...values.map((value) => value || 0), measure === "errors" ? 1 : measure === "trip" ? 100 : 1e6);
    least = measure === "trip" ? "0" : "idle";
    most = name(top);
  }
  find("legend-least").textContent = least;
  find("legend-most").textContent = most;
  return values.map((value) => (value === null || value === undefined ? null : value / top));
}

function describeHost(host) {
  if (!host) return ["–"];
  if (host.isGone) return [host.name, "not reachable"];
  const way = host.is_self ? "this host" : host.hops === null ? "no route" : `${host.hops} hop${host.hops === 1 ? "" : "s"}${host.via && host.via !== host.name ? ` via ${host.via}` : ""}`;
  return [host.name, host.address || "no address: it observes", way, `processors ${words.percent(host.processor)}, ${words.degrees(host.temperature)}`];
}

function describeLink(link) {
  if (!link) return ["–"];
  if (link.state === "gone") return [link.name, "down"];
  const [a, b] = link.ends;
  const lines = [link.name, `${a.name} → ${b.name}: ${words.rate(link.sent[0])}`, `${b.name} → ${a.name}: ${words.rate(link.sent[1])}`];
  lines.push(`load ${words.percent(link.load)}, errors ${words.count(link.errors)} per s`);
  if (link.trip !== null || link.queue !== null) lines.push(`round trip ${words.us(link.trip)}, queue ${words.bytes(link.queue)}`);
  if (link.state === "drained") lines.push("drained");
  return lines;
}

// ---- Loads over time

async function loadHistory() {
  const series = await ask("api/load?top=24").catch(() => []);
  for (const one of series) {
    const first = one.end_s - one.sent_bytes_s.length + 1;
    state.history.set(`${one.host}:${one.port}`, one.sent_bytes_s.map((sent, at) => [first + at, sent]));
  }
  showChart();
}

function remember(said) {
  state.fabric.links.forEach((link, at) => {
    if (link.state === "gone" || !said.links[at]) return;
    link.ends.forEach((end, of) => {
      const key = `${end.id}:${end.port}`;
      if (!state.history.has(key)) state.history.set(key, []);
      const points = state.history.get(key);
      const last = points[points.length - 1];
      if (!last || said.at_s - last[0] > 0.5) points.push([said.at_s, said.links[at][of][0]]);
      while (points.length && points[0][0] < said.at_s - HISTORY_S) points.shift();
    });
  });
  showChart();
}

function showChart() {
  if (!state.fabric) return;
  const chosen = chosenLink();
  const host = chosenHost();
  const all = state.fabric.links.flatMap((link) => link.ends.map((end, at) => ({ end, other: link.ends[1 - at], link })));
  let wanted = all;
  if (chosen) wanted = all.filter((one) => one.link === chosen);
  if (host) wanted = all.filter((one) => one.end.id === host.id);
  const series = wanted.map(({ end, other }) => {
    const points = state.history.get(`${end.id}:${end.port}`) || [];
    const sum = points.slice(-30).reduce((whole, point) => whole + (point[1] || 0), 0);
    return { name: `${end.name}:${end.port} → ${other.name}`, points, sum };
  });
  series.sort((a, b) => b.sum - a.sum);
  find("loads-of").textContent = chosen ? chosen.name : host ? `sent by ${host.name}` : "the busiest directions";
  chart.set(series.slice(0, 8).filter((one) => one.points.length), "Bytes sent per second over the last five minutes");
}

// ---- The chosen host or link, and acts

function chosenHost() {
  return view.chosen && view.chosen.kind === "vertex" && state.fabric ? state.fabric.hosts[view.chosen.at] : null;
}

function chosenLink() {
  return view.chosen && view.chosen.kind === "link" && state.fabric ? state.fabric.links[view.chosen.at] : null;
}

function facts(...pairs) {
  return make("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

let chosenKey = "";

/** `isNew`: the reader has chosen; otherwise only numbers are new, and buttons stay. */
function showChosen(isNew) {
  const [host, link] = [chosenHost(), chosenLink()];
  const key = host ? host.id : link ? `${link.key} ${link.state}` : "";
  const numbers = find("chosen-facts");
  if (!isNew && key === chosenKey && numbers) {
    numbers.replaceChildren(host ? hostFacts(host) : linkFacts(link));
    return;
  }
  if (!isNew && key === chosenKey) return;
  chosenKey = key;
  find("chosen-kind").textContent = host ? "Host" : link ? "Link" : "Chosen";
  const place = find("chosen");
  if (host) place.replaceChildren(make("h3", {}, host.name), make("div", { id: "chosen-facts" }, hostFacts(host)), ...hostActs(host));
  else if (link) place.replaceChildren(make("h3", {}, link.name), make("div", { id: "chosen-facts" }, linkFacts(link)), ...linkActs(link));
  else place.replaceChildren(make("p", { class: "dim" }, "Choose a host or a link: click it, or use the arrow keys."));
  showChart();
  showTab();
}

function hostFacts(host) {
  if (host.isGone) return facts(["state", "not reachable"]);
  return facts(
    ["state", host.is_self ? "this host" : host.hops === null ? "no route" : "reachable"], ["address", host.address || "none"], ["number", host.id],
    ["hops", host.is_self ? "0" : words.count(host.hops)], ["via", host.via || "–"], ["MTU", words.count(host.mtu)],
    ["processors", words.percent(host.processor)], ["temperature", words.degrees(host.temperature)],
  );
}

function linkFacts(link) {
  const [a, b] = link.ends;
  return facts(
    ["state", link.state === "gone" ? "down" : link.state], [`${a.name} →`, words.rate(link.sent[0])], [`${b.name} →`, words.rate(link.sent[1])],
    ["load", words.percent(link.load)], ["errors", `${words.count(link.errors)} per s`], ["round trip", words.us(link.trip)],
    ["queue", words.bytes(link.queue)], ["MTU", words.count(link.mtu)],
  );
}

function isOperator() {
  return state.session && state.session.role === "operator";
}

/** A button that asks again before an act, and says what came of it. */
function actButton(name, kind, question, path, body, said) {
  const button = make("button", { class: `small ${kind}` }, name);
  button.addEventListener("click", async () => {
    if (question && button.dataset.sure !== "1") {
      button.dataset.sure = "1";
      button.textContent = question;
      setTimeout(() => {
        button.dataset.sure = "";
        button.textContent = name;
      }, 4000);
      return;
    }
    button.disabled = true;
    said.className = "said";
    said.textContent = "…";
    try {
      said.textContent = (await ask(path, body)).done;
      said.className = "said good";
    } catch (error) {
      said.textContent = error.message;
      said.className = "said bad";
    }
    button.disabled = false;
  });
  return button;
}

function portActs(host, port, said) {
  const act = (name, act, kind, question) => actButton(name, kind, question, "api/link", { host, port, act }, said);
  return make("div", { class: "row" }, act("Activate", "up", "", null), act("Drain", "drain", "", null), act("Reset", "reset", "risk", "Reset it?"), act("Deactivate", "down", "risk", "Take it down?"));
}

function linkActs(link) {
  if (!isOperator()) return [make("p", { class: "dim" }, "Operators can activate, deactivate, reset and drain it.")];
  const said = make("p", { class: "said", role: "status" });
  const at = (end) => [make("p", { class: "dim" }, `at ${end.name}, port ${end.port}${end.interface ? ` (${end.interface})` : ""}`), portActs(ownOrId(end.id), end.port, said)];
  return [...link.ends.flatMap(at), said];
}

function ownOrId(id) {
  const own = state.fabric.hosts.find((host) => host.is_self);
  return own && own.id === id ? "" : id;
}

function hostActs(host) {
  if (host.isGone) return [];
  const said = make("p", { class: "said", role: "status" });
  const ports = make("div");
  const look = make("button", { class: "small", on: { click: () => showPorts(host, ports, said) } }, "Ports");
  const end = make("button", { class: "small", on: { click: () => takeEnd(host.name) } }, "Route end");
  const row = make("div", { class: "row" }, look, end);
  if (isOperator()) row.append(actButton("Restart daemon", "risk", "Restart it?", "api/restart", { host: ownOrId(host.id) }, said));
  return [row, ports, said];
}

async function showPorts(host, place, said) {
  try {
    const status = await ask(`api/ports?host=${encodeURIComponent(ownOrId(host.id))}`);
    place.replaceChildren(...status.ports.flatMap((port) => [
      facts([port.interface, `port ${port.port}: ${port.state}${port.is_drained ? ", drained" : ""}`],
        ["neighbour", port.neighbour ? `${port.neighbour}:${port.neighbour_port}` : "–"],
        ["round trip", words.us(port.round_trip_us)], ["fallen", `${port.drops} times`], ["refused", words.count(port.frames_refused + port.replays)]),
      isOperator() ? portActs(ownOrId(host.id), port.port, said) : "",
    ]));
  } catch (error) {
    said.textContent = error.message;
    said.className = "said bad";
  }
}

// ---- The route between two hosts

function takeEnd(name) {
  const [from, to] = [find("from"), find("to")];
  if (!from.value || (from.value && to.value)) {
    from.value = name;
    to.value = "";
    find("way").replaceChildren(make("p", { class: "dim" }, `From ${name}: choose the other end.`));
    view.setPath([], []);
  } else {
    to.value = name;
    showRoute(true);
  }
}

find("route").addEventListener("submit", (event) => {
  event.preventDefault();
  showRoute(true);
});

find("clear-route").addEventListener("click", () => {
  find("from").value = "";
  find("to").value = "";
  state.route = null;
  view.setPath([], []);
  find("way").replaceChildren(make("p", { class: "dim" }, "Two hosts: type them, or double-click them."));
});

async function showRoute(isNew) {
  const [from, to] = isNew ? [find("from").value.trim(), find("to").value.trim()] : state.route;
  if (!from || !to) return;
  try {
    const route = await ask(`api/routes?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`);
    state.route = [from, to];
    const vertices = route.hosts.map((host) => state.fabric.hosts.findIndex((one) => one.id === host.host));
    const keys = route.links.map((link) => link.ends.map((end) => `${end.host}:${end.port}`).sort().join(" "));
    const links = keys.map((key) => state.fabric.links.findIndex((link) => link.ends.map((end) => `${end.id}:${end.port}`).sort().join(" ") === key));
    view.setPath(vertices.filter((at) => at >= 0), links.filter((at) => at >= 0));
    const items = [];
    route.hosts.forEach((host, at) => {
      items.push(make("li", {}, host.name));
      const link = route.links[at];
      if (link) items.push(make("li", { class: "hop" }, `port ${link.ends[0].port} → port ${link.ends[1].port}, ${words.rate(link.ends[0].sent_bytes_s)}`));
    });
    const more = [["links", words.count(route.links.length)], ["MTU", words.count(route.mtu)]];
    if (route.kernel) more.push(["kernel", route.kernel]);
    if (route.source) more.push(["source route", `${route.source.algorithm}: ports ${route.source.ports.join(", ")}`]);
    find("way").replaceChildren(make("ol", { class: "way" }, ...items), make("br"), facts(...more));
  } catch (error) {
    state.route = null;
    view.setPath([], []);
    find("way").replaceChildren(make("p", { class: "said bad" }, error.message));
  }
}

// ---- Lists

function showLog() {
  if (state.tab === "log") log.show(find("filter").value, find("warnings").checked);
}

function showTab() {
  if (!state.fabric) return;
  const filter = find("filter").value.trim();
  const chosen = view.chosen ? view.chosen.key : null;
  if (state.tab === "hosts") hostGrid.show(tables.hosts(state.fabric, filter, chosen, (key) => view.chooseKey("vertex", key)));
  if (state.tab === "links") linkGrid.show(tables.links(state.fabric, filter, chosen, (key) => view.chooseKey("link", key)));
  if (state.tab === "nics") nics.show(filter);
  showLog();
}

function showAll() {
  showTab();
  showChosen(false);
}

const tabs = ["hosts", "links", "nics", "log"];
function openTab(name) {
  state.tab = name;
  for (const one of tabs) {
    find(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    find(`tab-${one}`).tabIndex = one === name ? 0 : -1;
    find(`panel-${one}`).hidden = one !== name;
  }
  find("warnings-only").hidden = name !== "log";
  if (name === "nics") nics.load();
  log.isStale = true;
  showTab();
}
tabs.forEach((name, at) => {
  find(`tab-${name}`).addEventListener("click", () => openTab(name));
  find(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[event.key];
    if (!step) return;
    const next = tabs[(at + step) % tabs.length];
    openTab(next);
    find(`tab-${next}`).focus();
  });
});
find("filter").addEventListener("input", showTab);
find("warnings").addEventListener("change", showTab);
find("fit").addEventListener("click", () => view.fit());
find("measure").addEventListener("change", () => state.fabric && view.setLevels(levels()));
openTab("hosts");
begin();

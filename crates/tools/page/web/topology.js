// SPDX-License-Identifier: Apache-2.0 OR MIT
// The topology view: vertices and links on a canvas, coloured by level, dragged, zoomed, used by keys.
//
// A graph is { vertices: [{ key, label, shape, size, x, y }], links: [{ key, a, b, bend, state }] }: `shape` is "host" or
// "router", `x` and `y` may be left out, `state` is "up", "drained" or "gone", `bend` curves a link that wraps around.
// A level is a number from 0 to 1 for each link, or null. Costs of a drawing: O(vertices + links), one path a colour.

const LEVELS = 24;
const REACH = 7;

class TopologyView {
  /** `of`: describe(thing) gives lines of text, chosen(thing) and activated(vertex) hear of the reader's choices. */
  constructor(canvas, of) {
    this.canvas = canvas;
    this.of = of;
    this.graph = { vertices: [], links: [] };
    this.levels = [];
    this.path = { vertices: new Set(), links: new Set() };
    this.marks = new Set();
    this.hovered = null;
    this.chosen = null;
    this.zoom = 1;
    this.left = 0;
    this.top = 0;
    this.isFitted = true;
    this.layout = null;
    this.pointers = new Map();
    this.tip = make("div", { class: "tip", hidden: true });
    this.spoken = make("div", { class: "unseen", "aria-live": "polite" });
    canvas.after(this.tip, this.spoken);
    canvas.tabIndex = 0;
    this.listen();
    this.takeColours();
    onTheme(() => {
      this.takeColours();
      this.ask();
    });
    new ResizeObserver(() => {
      if (this.isFitted) this.fit();
      this.ask();
    }).observe(canvas);
  }

  takeColours() {
    this.colours = {
      paper: ink("--card"), ink: ink("--ink"), dim: ink("--dim"), line: ink("--line"), host: ink("--host"), router: ink("--router"),
      accent: ink("--accent"), bad: ink("--bad"), path: ink("--path"),
    };
    this.heat = heatColours(LEVELS);
  }

  /** Takes a new graph. Vertices keep their places by their keys. */
  setGraph(graph) {
    const began = performance.now();
    const places = new Map(this.graph.vertices.map((vertex) => [vertex.key, [vertex.x, vertex.y]]));
    const wasEmpty = !this.graph.vertices.length;
    this.graph = graph;
    if (graph.vertices.some((vertex) => vertex.x === undefined)) {
      const known = graph.vertices.map((vertex) => places.get(vertex.key) || null);
      this.layout = new Layout(graph.vertices.length, graph.links.map((link) => [link.a, link.b]), known);
      if (graph.vertices.length <= 100) this.layout.refine(40);
      this.takePlaces();
    } else {
      this.layout = null;
    }
    const bundles = new Map();
    for (const link of graph.links) {
      const pair = Math.min(link.a, link.b) * 1e6 + Math.max(link.a, link.b);
      link.number = bundles.get(pair) || 0;
      link.pair = pair;
      bundles.set(pair, link.number + 1);
    }
    for (const link of graph.links) link.beside = bundles.get(link.pair);
    this.spacing = this.meanLength();
    this.hovered = null;
    this.chosen = this.chosen && this.byKey(this.chosen.kind, this.chosen.key);
    if (wasEmpty || this.isFitted) this.fit();
    this.draw();
    performance.measure("draw topology", { start: began, end: performance.now() });
    this.ask();
  }

  takePlaces() {
    this.graph.vertices.forEach((vertex, at) => {
      vertex.x = this.layout.x[at];
      vertex.y = this.layout.y[at];
    });
  }

  /** Length of most links, in units of the graph. */
  meanLength() {
    const lengths = this.graph.links.map((link) => {
      const [a, b] = [this.graph.vertices[link.a], this.graph.vertices[link.b]];
      return Math.hypot(a.x - b.x, a.y - b.y);
    });
    lengths.sort((a, b) => a - b);
    return lengths.length ? lengths[Math.floor(lengths.length / 4)] || 1 : 1;
  }

  byKey(kind, key) {
    const list = kind === "vertex" ? this.graph.vertices : this.graph.links;
    const at = list.findIndex((one) => one.key === key);
    return at < 0 ? null : { kind, at, key };
  }

  setLevels(levels) {
    this.levels = levels;
    if (this.hovered) this.showTip();
    this.ask();
  }

  setPath(vertices, links) {
    this.path = { vertices: new Set(vertices), links: new Set(links) };
    this.ask();
  }

  /** Marks vertices by their keys. */
  setMarks(marks) {
    this.marks = marks;
    this.ask();
  }

  choose(thing, tell = true) {
    this.chosen = thing;
    if (thing && tell) this.spoken.textContent = this.of.describe(thing).join(", ");
    if (tell) this.of.chosen(thing);
    this.ask();
  }

  chooseKey(kind, key) {
    const thing = this.byKey(kind, key);
    if (thing) this.choose(thing);
  }

  // ---- Places on the canvas

  fit() {
    const { vertices } = this.graph;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (!vertices.length || !width || !height) return;
    const xs = vertices.map((vertex) => vertex.x);
    const ys = vertices.map((vertex) => vertex.y);
    const least = (list) => list.reduce((a, b) => Math.min(a, b));
    const most = (list) => list.reduce((a, b) => Math.max(a, b));
    const [minX, maxX, minY, maxY] = [least(xs), most(xs), least(ys), most(ys)];
    const margin = Math.min(56, 0.12 * Math.min(width, height));
    const across = (width - 2 * margin) / Math.max(maxX - minX, 1e-3);
    const down = (height - 2 * margin) / Math.max(maxY - minY, 1e-3);
    this.zoom = Math.min(across, down, 150);
    this.left = width / 2 - (this.zoom * (minX + maxX)) / 2;
    this.top = height / 2 - (this.zoom * (minY + maxY)) / 2;
    this.isFitted = true;
    this.ask();
  }

  zoomAt(x, y, factor) {
    const zoom = Math.min(Math.max(this.zoom * factor, 0.5), 2000);
    this.left = x - ((x - this.left) * zoom) / this.zoom;
    this.top = y - ((y - this.top) * zoom) / this.zoom;
    this.zoom = zoom;
    this.isFitted = false;
    this.ask();
  }

  place(vertex) {
    return [this.left + this.zoom * vertex.x, this.top + this.zoom * vertex.y];
  }

  radius(vertex) {
    const room = this.zoom * this.spacing * 0.3;
    return Math.max(1.5, Math.min(room, 11) * (vertex.size || 1));
  }

  /** Ends of a link, and the point that bends it; null: it is straight. */
  course(link) {
    const [x1, y1] = this.place(this.graph.vertices[link.a]);
    const [x2, y2] = this.place(this.graph.vertices[link.b]);
    let bend = link.bend || 0;
    if (link.beside > 1) bend += (link.number - (link.beside - 1) / 2) * 0.28 * (link.a < link.b ? 1 : -1);
    if (!bend) return [x1, y1, x2, y2, null, null];
    return [x1, y1, x2, y2, (x1 + x2) / 2 - (y2 - y1) * bend, (y1 + y2) / 2 + (x2 - x1) * bend];
  }

  // ---- Drawing

  /** Asks for a drawing in the next frame. */
  ask() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      if (this.layout && this.layout.refine(8)) {
        this.takePlaces();
        if (this.isFitted) this.fit();
        this.ask();
      }
      this.draw();
    });
  }

  draw() {
    const { canvas } = this;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.lineCap = "round";
    this.drawLinks(pen);
    this.drawVertices(pen, width, height);
  }

  drawLinks(pen) {
    const { links } = this.graph;
    const crowd = links.length > 1500 && this.isFitted ? 0.5 : 1;
    const thick = crowd * Math.max(1, Math.min(3, this.zoom * this.spacing * 0.05));
    const groups = new Map();
    links.forEach((link, at) => {
      const level = this.levels[at];
      const isKnown = level !== null && level !== undefined && !Number.isNaN(level);
      const step = link.state === "gone" ? "gone" : isKnown ? Math.round(Math.min(Math.max(level, 0), 1) * LEVELS) : "unknown";
      const key = link.state === "drained" ? `drained ${step}` : step;
      if (!groups.has(key)) groups.set(key, { step, isDrained: link.state === "drained", at: [] });
      groups.get(key).at.push(at);
    });
    const rank = (group) => (group.step === "gone" ? LEVELS + 1 : group.step === "unknown" ? -1 : group.step);
    const trace = (at) => {
      const [x1, y1, x2, y2, bx, by] = this.course(links[at]);
      pen.moveTo(x1, y1);
      if (bx === null) pen.lineTo(x2, y2);
      else pen.quadraticCurveTo(bx, by, x2, y2);
    };
    if (this.path.links.size) {
      pen.beginPath();
      this.path.links.forEach(trace);
      pen.strokeStyle = this.colours.path;
      pen.lineWidth = thick + 7;
      pen.stroke();
    }
    // Busy links lie above idle ones.
    for (const group of [...groups.values()].sort((a, b) => rank(a) - rank(b))) {
      pen.beginPath();
      group.at.forEach(trace);
      const isGone = group.step === "gone";
      pen.strokeStyle = isGone ? this.colours.bad : group.step === "unknown" ? this.colours.line : this.heat[group.step];
      pen.lineWidth = typeof group.step === "number" ? thick * (1 + (1.6 * group.step) / LEVELS) : isGone ? thick * 1.3 : thick;
      pen.setLineDash(isGone ? [3, 5] : group.isDrained ? [9, 5] : []);
      pen.stroke();
    }
    pen.setLineDash([]);
    for (const thing of [this.hovered, this.chosen]) {
      if (!thing || thing.kind !== "link" || !links[thing.at]) continue;
      pen.beginPath();
      trace(thing.at);
      pen.strokeStyle = this.colours.accent;
      pen.globalAlpha = 0.4;
      pen.lineWidth = thick + 8;
      pen.stroke();
      pen.globalAlpha = 1;
    }
  }

  drawVertices(pen, width, height) {
    const { vertices } = this.graph;
    const shapes = { host: [], router: [], dead: [] };
    vertices.forEach((vertex, at) => (shapes[vertex.state === "gone" ? "dead" : vertex.shape] || shapes.host).push(at));
    const trace = (at, more = 0) => {
      const vertex = vertices[at];
      const [x, y] = this.place(vertex);
      const radius = this.radius(vertex) + more;
      if (vertex.shape === "router") {
        pen.rect(x - radius * 0.88, y - radius * 0.88, radius * 1.76, radius * 1.76);
      } else {
        pen.moveTo(x + radius, y);
        pen.arc(x, y, radius, 0, 2 * Math.PI);
      }
    };
    const edge = this.zoom * this.spacing > 14 ? 1.5 : 0;
    for (const [shape, members] of Object.entries(shapes)) {
      if (!members.length) continue;
      pen.beginPath();
      members.forEach((at) => trace(at));
      pen.fillStyle = shape === "dead" ? this.colours.bad : this.colours[shape];
      pen.fill();
      if (edge) {
        pen.strokeStyle = this.colours.paper;
        pen.lineWidth = edge;
        pen.stroke();
      }
    }
    const ring = (at, colour, more, line) => {
      pen.beginPath();
      trace(at, more);
      pen.strokeStyle = colour;
      pen.lineWidth = line;
      pen.stroke();
    };
    vertices.forEach((vertex, at) => {
      if (this.marks.has(vertex.key)) ring(at, this.colours.accent, 2, 2.5);
    });
    this.path.vertices.forEach((at) => vertices[at] && ring(at, this.colours.path, 2.5, 3));
    for (const thing of [this.hovered, this.chosen]) {
      if (thing && thing.kind === "vertex" && vertices[thing.at]) ring(thing.at, this.colours.accent, 4, 2.5);
    }
    this.drawLabels(pen, width, height);
  }

  /** Labels where there is room: those of chosen vertices first. */
  drawLabels(pen, width, height) {
    const { vertices } = this.graph;
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const taken = [];
    const first = [this.hovered, this.chosen].filter((thing) => thing && thing.kind === "vertex").map((thing) => thing.at);
    const order = [...first, ...this.path.vertices];
    if (this.zoom * this.spacing > 26) vertices.forEach((_, at) => order.push(at));
    const seen = new Set();
    for (const at of order) {
      const vertex = vertices[at];
      if (!vertex || seen.has(at) || !vertex.label) continue;
      seen.add(at);
      const [x, y] = this.place(vertex);
      if (x < -50 || y < -50 || x > width + 50 || y > height + 50) continue;
      const label = vertex.label.length > 24 ? `${vertex.label.slice(0, 23)}…` : vertex.label;
      const wide = pen.measureText(label).width;
      const box = [x - wide / 2 - 2, y + this.radius(vertex) + 3, wide + 4, 15];
      const overlaps = taken.some((other) => box[0] < other[0] + other[2] && other[0] < box[0] + box[2] && box[1] < other[1] + other[3] && other[1] < box[1] + box[3]);
      if (overlaps && !first.includes(at)) continue;
      taken.push(box);
      pen.lineWidth = 3;
      pen.strokeStyle = this.colours.paper;
      pen.strokeText(label, x, box[1] + 1);
      pen.fillStyle = this.colours.ink;
      pen.fillText(label, x, box[1] + 1);
    }
  }

  // ---- The pointer and the keys

  at(x, y) {
    const { vertices, links } = this.graph;
    let best = null;
    let least = Infinity;
    vertices.forEach((vertex, at) => {
      const [vx, vy] = this.place(vertex);
      const distance = Math.hypot(vx - x, vy - y) - this.radius(vertex);
      if (distance < Math.min(4, least)) [least, best] = [distance, { kind: "vertex", at, key: vertex.key }];
    });
    if (best) return best;
    least = REACH;
    links.forEach((link, at) => {
      const [x1, y1, x2, y2, bx, by] = this.course(link);
      const distance = bx === null ? toSegment(x, y, x1, y1, x2, y2) : toCurve(x, y, x1, y1, bx, by, x2, y2);
      if (distance < least) [least, best] = [distance, { kind: "link", at, key: link.key }];
    });
    return best;
  }

  listen() {
    const { canvas } = this;
    const here = (event) => [event.offsetX, event.offsetY];
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = here(event);
      this.pointers.set(event.pointerId, [x, y]);
      const thing = this.at(x, y);
      this.pressed = { thing, x, y, hasMoved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = here(event);
      const before = this.pointers.get(event.pointerId);
      if (!before) return this.hover(this.at(x, y), x, y);
      this.pointers.set(event.pointerId, [x, y]);
      if (this.pointers.size === 2) return this.pinch(event.pointerId, before, [x, y]);
      if (!this.pressed || (!this.pressed.hasMoved && Math.hypot(x - this.pressed.x, y - this.pressed.y) < 4)) return undefined;
      this.pressed.hasMoved = true;
      this.hover(null);
      const { thing } = this.pressed;
      if (thing && thing.kind === "vertex") {
        const vertex = this.graph.vertices[thing.at];
        vertex.x = (x - this.left) / this.zoom;
        vertex.y = (y - this.top) / this.zoom;
        if (this.layout) {
          [this.layout.x[thing.at], this.layout.y[thing.at]] = [vertex.x, vertex.y];
          this.layout.fixed[thing.at] = 1;
        }
        this.isFitted = false;
      } else {
        this.left += x - before[0];
        this.top += y - before[1];
        this.isFitted = false;
      }
      return this.ask();
    });
    const release = (event) => {
      this.pointers.delete(event.pointerId);
      if (event.type === "pointerup" && this.pressed && !this.pressed.hasMoved) this.choose(this.pressed.thing);
      this.pressed = null;
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("dblclick", (event) => {
      const thing = this.at(...here(event));
      if (thing && thing.kind === "vertex") this.of.activated(thing);
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(...here(event), Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (this.key(event)) event.preventDefault();
    });
  }

  pinch(id, before, now) {
    const other = [...this.pointers].find(([pointer]) => pointer !== id);
    if (!other) return;
    const [ox, oy] = other[1];
    const was = Math.hypot(before[0] - ox, before[1] - oy);
    const is = Math.hypot(now[0] - ox, now[1] - oy);
    if (was > 1) this.zoomAt((now[0] + ox) / 2, (now[1] + oy) / 2, is / was);
  }

  hover(thing, x, y) {
    const isSame = thing && this.hovered && thing.kind === this.hovered.kind && thing.at === this.hovered.at;
    this.hovered = thing;
    this.canvas.classList.toggle("over", Boolean(thing));
    if (thing) this.tipAt = [x, y];
    this.showTip();
    if (!isSame) this.ask();
  }

  showTip() {
    if (!this.hovered) {
      this.tip.hidden = true;
      return;
    }
    const [title, ...lines] = this.of.describe(this.hovered);
    this.tip.replaceChildren(make("b", {}, title), ...lines.map((line) => make("div", {}, line)));
    this.tip.hidden = false;
    const [x, y] = this.tipAt;
    const left = Math.min(x + 14, this.canvas.clientWidth - this.tip.offsetWidth - 4);
    const top = y + 16 + this.tip.offsetHeight > this.canvas.clientHeight ? y - this.tip.offsetHeight - 10 : y + 16;
    this.tip.style.left = `${Math.max(left, 4) + this.canvas.offsetLeft}px`;
    this.tip.style.top = `${Math.max(top, 4) + this.canvas.offsetTop}px`;
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (step && event.shiftKey) {
      this.left -= step[0] * 60;
      this.top -= step[1] * 60;
      this.isFitted = false;
      this.ask();
    } else if (step) this.walk(step);
    else if (event.key === "+" || event.key === "=") this.zoomAt(width / 2, height / 2, 1.25);
    else if (event.key === "-") this.zoomAt(width / 2, height / 2, 0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.choose(null);
    else if (event.key === "Enter" && this.chosen && this.chosen.kind === "vertex") this.of.activated(this.chosen);
    else return false;
    return true;
  }

  /** Chooses the next vertex in a direction. */
  walk([dx, dy]) {
    const { vertices } = this.graph;
    if (!vertices.length) return;
    const from = this.chosen && this.chosen.kind === "vertex" ? vertices[this.chosen.at] : null;
    if (!from) return this.choose({ kind: "vertex", at: 0, key: vertices[0].key });
    let [best, least] = [null, Infinity];
    vertices.forEach((vertex, at) => {
      const along = (vertex.x - from.x) * dx + (vertex.y - from.y) * dy;
      const aside = Math.abs((vertex.x - from.x) * dy) + Math.abs((vertex.y - from.y) * dx);
      if (vertex !== from && along > 1e-6 && along + 2.5 * aside < least) [best, least] = [at, along + 2.5 * aside];
    });
    if (best !== null) this.choose({ kind: "vertex", at: best, key: vertices[best].key });
  }
}

function toSegment(x, y, x1, y1, x2, y2) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const share = Math.min(Math.max(((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1), 0), 1);
  return Math.hypot(x - x1 - share * dx, y - y1 - share * dy);
}

function toCurve(x, y, x1, y1, bx, by, x2, y2) {
  let least = Infinity;
  let [px, py] = [x1, y1];
  for (let step = 1; step <= 12; step += 1) {
    const t = step / 12;
    const [qx, qy] = [(1 - t) ** 2 * x1 + 2 * t * (1 - t) * bx + t * t * x2, (1 - t) ** 2 * y1 + 2 * t * (1 - t) * by + t * t * y2];
    least = Math.min(least, toSegment(x, y, px, py, qx, qy));
    [px, py] = [qx, qy];
  }
  return least;
}

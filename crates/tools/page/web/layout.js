// SPDX-License-Identifier: Apache-2.0 OR MIT
// Places the vertices of a graph that brings no coordinates.
//
// First, each part of the graph is placed by distances to a few pivots (classical scaling of pivots): O(k (n + m)), some
// ten milliseconds for a thousand vertices, and it shows rings, meshes and tori as such. Then springs and repulsion of
// near vertices refine it, for a bounded number of steps. A small graph is placed several times, turned and mirrored, and
// the drawing with the fewest crossings stays.

const PIVOTS_MAX = 40;
const STEPS_MAX = 240;
const SMALL = 24;
const STARTS = 24;

class Layout {
  /** `links`: pairs of vertices. `places`: known places by vertex, or null. */
  constructor(count, links, places) {
    this.count = count;
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    this.links = links.filter(([a, b]) => a !== b);
    this.near = Array.from({ length: count }, () => []);
    for (const [a, b] of this.links) {
      this.near[a].push(b);
      this.near[b].push(a);
    }
    this.fixed = new Uint8Array(count);
    const known = places ? places.filter(Boolean).length : 0;
    if (known * 2 > count) this.keep(places);
    else this.begin();
    this.stepsLeft = known === count ? 0 : known * 2 > count ? 40 : STEPS_MAX;
    this.heat = known * 2 > count ? 0.15 : 0.6;
    if (!known && count > 3 && count <= SMALL) this.choose();
  }

  /** Places a small graph from several starts, and keeps the best. */
  choose() {
    const first = [this.x.slice(), this.y.slice()];
    let best = null;
    for (let start = 0; start < STARTS; start += 1) {
      for (let at = 0; at < this.count; at += 1) {
        const turn = 2.399963 * (at + 1) * (start + 1);
        const far = start ? 0.15 * start : 0;
        this.x[at] = first[0][at] + far * Math.cos(turn);
        this.y[at] = first[1][at] + far * Math.sin(turn * 1.7);
      }
      [this.stepsLeft, this.heat] = [STEPS_MAX, 0.6];
      while (this.stepsLeft > 0) {
        this.step();
        this.stepsLeft -= 1;
        this.heat *= 0.985;
      }
      const cost = this.cost();
      if (!best || cost < best.cost) best = { cost, x: this.x.slice(), y: this.y.slice() };
    }
    [this.x, this.y] = [best.x, best.y];
  }

  /** Crossings of links, and vertices that lie on links of others. */
  cost() {
    const { x, y, links } = this;
    const side = (a, b, c) => Math.sign((x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]));
    let cost = 0;
    links.forEach(([a, b], at) => {
      for (const [c, d] of links.slice(at + 1)) {
        if (a === c || a === d || b === c || b === d) continue;
        if (side(a, b, c) !== side(a, b, d) && side(c, d, a) !== side(c, d, b)) cost += 1;
      }
      for (let other = 0; other < this.count; other += 1) {
        if (other !== a && other !== b && toSegment(x[other], y[other], x[a], y[a], x[b], y[b]) < 0.16) cost += 4;
      }
    });
    return cost;
  }

  /** Takes known places; new vertices start at their neighbours. */
  keep(places) {
    const waiting = [];
    for (let at = 0; at < this.count; at += 1) {
      if (places[at]) [this.x[at], this.y[at]] = places[at];
      else waiting.push(at);
    }
    for (const at of waiting) {
      const known = this.near[at].filter((other) => places[other]);
      const sum = known.reduce(([x, y], other) => [x + places[other][0], y + places[other][1]], [0, 0]);
      const turn = at * 2.399963;
      this.x[at] = (known.length ? sum[0] / known.length : 0) + Math.cos(turn);
      this.y[at] = (known.length ? sum[1] / known.length : 0) + Math.sin(turn);
    }
  }

  begin() {
    const part = new Int32Array(this.count).fill(-1);
    const parts = [];
    for (let at = 0; at < this.count; at += 1) {
      if (part[at] >= 0) continue;
      const members = [at];
      part[at] = parts.length;
      for (let next = 0; next < members.length; next += 1) {
        for (const other of this.near[members[next]]) {
          if (part[other] < 0) {
            part[other] = parts.length;
            members.push(other);
          }
        }
      }
      parts.push(members);
    }
    parts.sort((a, b) => b.length - a.length);
    // Parts stand in rows.
    let [left, top, high] = [0, 0, 0];
    const wide = 3 * Math.sqrt(this.count) + 2;
    for (const members of parts) {
      const [width, height] = this.place(members);
      if (left > 0 && left + width > wide) {
        [left, top, high] = [0, top + high + 2, 0];
      }
      for (const at of members) {
        this.x[at] += left;
        this.y[at] += top;
      }
      left += width + 2;
      high = Math.max(high, height);
    }
  }

  distances(from) {
    const distance = new Float64Array(this.count).fill(-1);
    const queue = [from];
    distance[from] = 0;
    for (let at = 0; at < queue.length; at += 1) {
      for (const other of this.near[queue[at]]) {
        if (distance[other] < 0) {
          distance[other] = distance[queue[at]] + 1;
          queue.push(other);
        }
      }
    }
    return distance;
  }

  /** Places one part with its corner at 0, 0, and returns its width and height. */
  place(members) {
    if (members.length === 1) return [0, 0];
    const rows = [];
    const least = new Map(members.map((at) => [at, Infinity]));
    let pivot = members[0];
    while (rows.length < Math.min(PIVOTS_MAX, members.length)) {
      const distance = this.distances(pivot);
      rows.push(members.map((at) => -0.5 * distance[at] * distance[at]));
      for (const at of members) least.set(at, Math.min(least.get(at), distance[at]));
      pivot = members.reduce((best, at) => (least.get(at) > least.get(best) ? at : best), members[0]);
      if (least.get(pivot) === 0) break;
    }
    const count = members.length;
    const columnMeans = members.map((_, at) => rows.reduce((sum, row) => sum + row[at], 0) / rows.length);
    const whole = columnMeans.reduce((sum, mean) => sum + mean, 0) / count;
    for (const row of rows) {
      const mean = row.reduce((sum, value) => sum + value, 0) / count;
      for (let at = 0; at < count; at += 1) row[at] += whole - mean - columnMeans[at];
    }
    const product = rows.map((a) => rows.map((b) => a.reduce((sum, value, at) => sum + value * b[at], 0)));
    const first = direction(product, []);
    const second = direction(product, [first]);
    const along = (axis) => members.map((_, at) => rows.reduce((sum, row, of) => sum + row[at] * axis[of], 0));
    const [xs, ys] = [along(first), along(second)];
    members.forEach((at, of) => {
      this.x[at] = xs[of];
      this.y[at] = ys[of];
    });
    let [length, edges] = [0, 0];
    for (const at of members) {
      for (const other of this.near[at]) {
        length += Math.hypot(this.x[at] - this.x[other], this.y[at] - this.y[other]);
        edges += 1;
      }
    }
    const scale = edges && length > 1e-9 ? edges / length : 1;
    let [minX, minY, maxX, maxY] = [Infinity, Infinity, -Infinity, -Infinity];
    members.forEach((at, of) => {
      // A small turn of each keeps vertices of one place apart.
      this.x[at] = this.x[at] * scale + 0.08 * Math.cos(of * 2.399963);
      this.y[at] = this.y[at] * scale + 0.08 * Math.sin(of * 2.399963);
      minX = Math.min(minX, this.x[at]);
      minY = Math.min(minY, this.y[at]);
      maxX = Math.max(maxX, this.x[at]);
      maxY = Math.max(maxY, this.y[at]);
    });
    for (const at of members) {
      this.x[at] -= minX;
      this.y[at] -= minY;
    }
    return [maxX - minX, maxY - minY];
  }

  /** Refines for at most so many milliseconds; false when nothing is left to do. */
  refine(budget) {
    const end = performance.now() + budget;
    while (this.stepsLeft > 0) {
      this.step();
      this.stepsLeft -= 1;
      this.heat *= 0.985;
      if (performance.now() > end) break;
    }
    return this.stepsLeft > 0;
  }

  step() {
    const { x, y, count } = this;
    const moveX = new Float64Array(count);
    const moveY = new Float64Array(count);
    const reach = count <= 200 ? 1e9 : 2.2;
    const push = (a, b) => {
      let dx = x[a] - x[b];
      let dy = y[a] - y[b];
      let square = dx * dx + dy * dy;
      if (square > reach * reach) return;
      if (square < 1e-6) [dx, dy, square] = [0.01 * Math.cos(a), 0.01 * Math.sin(a), 1e-4];
      const force = 0.55 / square;
      moveX[a] += dx * force;
      moveY[a] += dy * force;
      moveX[b] -= dx * force;
      moveY[b] -= dy * force;
    };
    if (count <= 200) {
      for (let a = 0; a < count; a += 1) for (let b = a + 1; b < count; b += 1) push(a, b);
    } else {
      const cells = new Map();
      const cell = (at) => Math.floor(x[at] / reach) * 100003 + Math.floor(y[at] / reach);
      for (let at = 0; at < count; at += 1) {
        const key = cell(at);
        if (!cells.has(key)) cells.set(key, []);
        cells.get(key).push(at);
      }
      for (const [key, members] of cells) {
        for (let a = 0; a < members.length; a += 1) {
          for (let b = a + 1; b < members.length; b += 1) push(members[a], members[b]);
        }
        for (const offset of [1, 100002, 100003, 100004]) {
          const others = cells.get(key + offset);
          if (others) for (const a of members) for (const b of others) push(a, b);
        }
      }
    }
    for (const [a, b] of this.links) {
      const dx = x[b] - x[a];
      const dy = y[b] - y[a];
      const length = Math.hypot(dx, dy) || 1e-3;
      const force = (0.5 * (length - 1)) / length / Math.sqrt(Math.max(this.near[a].length, this.near[b].length, 1));
      moveX[a] += dx * force;
      moveY[a] += dy * force;
      moveX[b] -= dx * force;
      moveY[b] -= dy * force;
    }
    for (let at = 0; at < count; at += 1) {
      if (this.fixed[at]) continue;
      const length = Math.hypot(moveX[at], moveY[at]);
      const share = length > this.heat ? this.heat / length : 1;
      x[at] += moveX[at] * share;
      y[at] += moveY[at] * share;
    }
  }
}

/** The main direction of a symmetric matrix, at right angles to others. */
function direction(matrix, others) {
  const size = matrix.length;
  let vector = Array.from({ length: size }, (_, at) => Math.sin(1 + at * 12.9898) + 0.5 * others.length * Math.cos(at * 78.233));
  for (let round = 0; round < 60; round += 1) {
    const next = matrix.map((row) => row.reduce((sum, value, at) => sum + value * vector[at], 0));
    for (const other of others) {
      const along = next.reduce((sum, value, at) => sum + value * other[at], 0);
      for (let at = 0; at < size; at += 1) next[at] -= along * other[at];
    }
    const length = Math.hypot(...next);
    if (length < 1e-12) return vector.map(() => 0);
    vector = next.map((value) => value / length);
  }
  return vector;
}

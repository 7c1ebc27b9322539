// SPDX-License-Identifier: Apache-2.0 OR MIT
// Lines over time on a canvas, with the values under the pointer.

const INKS_LIGHT = ["#2563c9", "#d2691e", "#1d7f4e", "#a02c8f", "#8a6d00", "#0f8a9d", "#c62f3c", "#5b6672"];
const INKS_DARK = ["#6ea5ff", "#ff9d5c", "#5fce96", "#e58ad8", "#d9bd4f", "#5fd0e0", "#ff7d86", "#a7b3bf"];

class Chart {
  /** `name` of a value is text for it. */
  constructor(place, name, time) {
    this.name = name;
    this.time = time || ((at) => words.clock(at).slice(0, 8));
    this.canvas = make("canvas", { role: "img" });
    this.keys = make("div", { class: "keys" });
    this.tip = make("div", { class: "tip", hidden: true });
    place.append(this.canvas, this.tip);
    place.after(this.keys);
    this.series = [];
    this.canvas.addEventListener("pointermove", (event) => this.show(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointerleave", () => {
      this.at = null;
      this.tip.hidden = true;
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    onTheme(() => this.set(this.series, this.label));
  }

  /** `series`: [{ name, points: [[time, value]] }], times ascending. */
  set(series, label) {
    const inks = matchMedia("(prefers-color-scheme: dark)").matches ? INKS_DARK : INKS_LIGHT;
    this.series = series;
    this.label = label;
    series.forEach((one, at) => (one.ink = inks[at % inks.length]));
    this.canvas.setAttribute("aria-label", label);
    this.keys.replaceChildren(...series.map((one) => {
      const mark = make("i");
      mark.style.background = one.ink;
      const last = one.points.length ? this.name(one.points[one.points.length - 1][1]) : "–";
      return make("span", {}, mark, `${one.name} `, make("span", { class: "dim" }, last));
    }));
    this.draw();
  }

  draw() {
    const sheet = cleared(this.canvas);
    if (!sheet) return;
    const { pen, width, height } = sheet;
    const all = this.series.flatMap((one) => one.points);
    if (all.length < 2) {
      pen.fillStyle = ink("--dim");
      pen.fillText("no samples yet", 8, 20);
      return;
    }
    const times = all.map((point) => point[0]);
    const [from, to] = [times.reduce((a, b) => Math.min(a, b)), times.reduce((a, b) => Math.max(a, b))];
    const top = rounded(all.reduce((most, point) => Math.max(most, point[1] || 0), 0)) || 1;
    const left = 62;
    this.x = (at) => left + ((at - from) / (to - from || 1)) * (width - left - 10);
    this.y = (value) => height - 20 - (value / top) * (height - 32);
    this.from = from;
    this.to = to;
    pen.strokeStyle = ink("--line");
    pen.fillStyle = ink("--dim");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let step = 0; step <= 4; step += 1) {
      const y = Math.round(this.y((top * step) / 4)) + 0.5;
      pen.beginPath();
      pen.moveTo(left, y);
      pen.lineTo(width - 8, y);
      pen.stroke();
      pen.fillText(this.name((top * step) / 4), left - 6, y);
    }
    pen.textBaseline = "top";
    for (const [share, align] of [[0, "left"], [0.5, "center"], [1, "right"]]) {
      pen.textAlign = align;
      const at = from + share * (to - from);
      pen.fillText(this.time(at), this.x(at), height - 15);
    }
    for (const one of this.series) {
      pen.beginPath();
      let isDown = false;
      for (const [at, value] of one.points) {
        if (value === null || value === undefined) {
          isDown = false;
          continue;
        }
        if (isDown) pen.lineTo(this.x(at), this.y(value));
        else pen.moveTo(this.x(at), this.y(value));
        isDown = true;
      }
      pen.strokeStyle = one.ink;
      pen.lineWidth = 1.6;
      pen.lineJoin = "round";
      pen.stroke();
    }
    if (this.at !== null && this.at !== undefined) {
      pen.beginPath();
      pen.moveTo(this.x(this.at), 8);
      pen.lineTo(this.x(this.at), height - 20);
      pen.strokeStyle = ink("--dim");
      pen.lineWidth = 1;
      pen.stroke();
    }
  }

  show(x, y) {
    if (!this.x || !this.series.length) return;
    const left = this.x(this.from);
    const share = Math.min(Math.max((x - left) / (this.x(this.to) - left || 1), 0), 1);
    this.at = this.from + share * (this.to - this.from);
    const lines = this.series.map((one) => {
      const near = one.points.reduce((best, point) => (Math.abs(point[0] - this.at) < Math.abs(best[0] - this.at) ? point : best), one.points[0] || [0, null]);
      return make("div", {}, `${one.name}: ${this.name(near[1])}`);
    });
    this.tip.replaceChildren(make("b", {}, this.time(this.at)), ...lines);
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(x + 14, this.canvas.clientWidth - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${Math.max(y - this.tip.offsetHeight / 2, 0)}px`;
    this.draw();
  }
}

/** The next round number above. */
function rounded(value) {
  if (!(value > 0)) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((step) => step * power).find((step) => step >= value);
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
// A matrix of cells on a canvas: sources are rows from the top down, targets are columns.

const LABEL_ROOM = 46;
const STEPS = 24;

class Matrix {
  /** `describe` of a row and a column gives lines of text; `chosen` is called when the reader chooses a cell. */
  constructor(canvas, { describe, chosen }) {
    this.canvas = canvas;
    [this.describe, this.whenChosen] = [describe, chosen];
    [this.rows, this.levels, this.chosen] = [0, new Map(), null];
    this.names = String;
    this.tip = make("div", { class: "tip", hidden: true });
    canvas.after(this.tip);
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("click", (event) => this.choose(this.cellAt(event.offsetX, event.offsetY)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
    onTheme(() => this.draw());
  }

  /** `levels`: a map from `row,column` to a share of 1; `names` of a row is its label. */
  set(rows, levels, names) {
    [this.rows, this.levels, this.names] = [rows, levels, names];
    if (this.chosen && (this.chosen.row >= rows || this.chosen.column >= rows)) this.chosen = null;
    this.draw();
  }

  choose(cell) {
    this.chosen = cell;
    this.draw();
    this.whenChosen();
  }

  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!this.rows || (!step && event.key !== "Escape")) return;
    event.preventDefault();
    if (!step || !this.chosen) {
      this.choose(step ? { row: 0, column: 0 } : null);
      return;
    }
    const within = (at) => Math.min(Math.max(at, 0), this.rows - 1);
    const { row, column } = this.chosen;
    this.choose({ row: within(row + step[0]), column: within(column + step[1]) });
  }

  /** The corner of the first cell, and the side of a cell. */
  layout() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const side = Math.max(Math.min(width - LABEL_ROOM - 14, height - LABEL_ROOM - 14) / (this.rows || 1), 0);
    const cell = side >= 4 ? Math.floor(side) : side;
    return { cell: Math.min(cell, 72), left: LABEL_ROOM, top: LABEL_ROOM };
  }

  cellAt(x, y) {
    const { cell, left, top } = this.layout();
    const [column, row] = [Math.floor((x - left) / cell), Math.floor((y - top) / cell)];
    const isIn = [row, column].every((at) => at >= 0 && at < this.rows);
    return isIn ? { row, column } : null;
  }

  point(event) {
    const cell = this.cellAt(event.offsetX, event.offsetY);
    this.tip.hidden = !cell;
    if (!cell) return;
    const [first, ...lines] = this.describe(cell.row, cell.column);
    this.tip.replaceChildren(make("b", {}, first), ...lines.map((line) => make("div", {}, line)));
    this.tip.style.left = `${Math.max(Math.min(event.offsetX + 14, this.canvas.clientWidth - this.tip.offsetWidth), 0)}px`;
    this.tip.style.top = `${Math.max(Math.min(event.offsetY + 14, this.canvas.clientHeight - this.tip.offsetHeight), 0)}px`;
  }

  draw() {
    const sheet = cleared(this.canvas);
    if (!sheet) return;
    const { pen } = sheet;
    const { cell, left, top } = this.layout();
    const size = cell * this.rows;
    pen.fillStyle = ink("--stripe");
    pen.fillRect(left, top, size, size);
    const heat = heatColours(STEPS);
    const gap = cell >= 8 ? 1 : 0;
    for (const [key, level] of this.levels) {
      if (!(level > 0)) continue;
      const [row, column] = key.split(",").map(Number);
      pen.fillStyle = heat[Math.round(Math.min(level, 1) * STEPS)];
      pen.fillRect(left + column * cell, top + row * cell, cell - gap, cell - gap);
    }
    this.drawLabels(pen, cell, left, top);
    if (this.chosen) {
      pen.strokeStyle = ink("--accent");
      pen.lineWidth = 2;
      pen.strokeRect(left + this.chosen.column * cell, top + this.chosen.row * cell, Math.max(cell - gap, 3), Math.max(cell - gap, 3));
    }
  }

  drawLabels(pen, cell, left, top) {
    pen.fillStyle = ink("--dim");
    const every = Math.max(Math.ceil(26 / (cell || 1)), 1);
    for (let at = 0; at < this.rows; at += every) {
      const middle = (at + 0.5) * cell;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(this.names(at), left - 6, top + middle);
      pen.textAlign = "center";
      pen.textBaseline = "bottom";
      pen.fillText(this.names(at), left + middle, top - 4);
    }
    pen.textAlign = "left";
    pen.textBaseline = "top";
    if (this.rows) pen.fillText("to rank →", left, 8);
    pen.save();
    pen.translate(8, top);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "right";
    if (this.rows) pen.fillText("← from rank", 0, 0);
    pen.restore();
  }
}

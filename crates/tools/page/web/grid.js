// SPDX-License-Identifier: Apache-2.0 OR MIT
// A table whose rows can be chosen.

const ROWS_SHOWN = 200;

/** A table's body: rows of at most `most`, and a line that tells of the others. */
function fillRows(body, rows, columns, most) {
  const shown = rows.slice(0, most);
  if (rows.length > most) {
    const text = `${rows.length - most} more: narrow the filter to see them`;
    shown.push(make("tr", { class: "more" }, make("td", { colspan: String(columns) }, text)));
  }
  if (!rows.length) shown.push(make("tr", { class: "more" }, make("td", { colspan: String(columns) }, "none")));
  body.replaceChildren(...shown);
}

class Grid {
  /** `heads`: names; those that begin with `>` are of numbers. */
  constructor(place, heads) {
    this.place = place;
    this.heads = heads.map((head) => [head.replace(/^>/, ""), head.startsWith(">")]);
    this.body = make("tbody");
    const head = make("tr", {}, ...this.heads.map(([name, isNumber]) => make("th", { scope: "col", class: isNumber ? "number" : "" }, name)));
    place.append(make("table", { class: "grid" }, make("thead", {}, head), this.body));
  }

  /** `rows`: [{ cells, pick, isChosen }]. */
  show(rows) {
    if (this.place.hidden) return;
    const shown = rows.slice(0, ROWS_SHOWN).map((row) => {
      const cells = row.cells.map((cell, at) => make("td", { class: this.heads[at][1] ? "number" : "" }, cell));
      const isPick = Boolean(row.pick);
      const of = { class: `${isPick ? "pick" : ""} ${row.isChosen ? "chosen" : ""}` };
      if (isPick) of.on = { click: row.pick };
      return make("tr", of, ...cells);
    });
    const focus = document.activeElement && this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fillRows(this.body, [...shown, ...rows.slice(ROWS_SHOWN)], this.heads.length, ROWS_SHOWN);
    if (focus) [...this.body.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focus)?.focus();
  }
}

/** A name that can be chosen by the keyboard. */
function pickable(text, key, pick) {
  const button = make("button", { class: "small", on: { click: (event) => { event.stopPropagation(); pick(); } } }, text);
  button.dataset.key = key;
  return button;
}

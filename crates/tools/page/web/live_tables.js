// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tables of hosts, links and NICs.

const ROWS_SHOWN = 200;

/** Whether all words of a filter are in a text. */
function fitsFilter(filter, text) {
  const low = text.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => low.includes(word));
}

function meter(percent) {
  if (percent === null || percent === undefined) return "–";
  const kind = percent >= 90 ? "meter full" : percent >= 60 ? "meter high" : "meter";
  const fill = make("i");
  fill.style.width = `${Math.min(percent, 100)}%`;
  return make("span", {}, make("span", { class: kind }, fill), words.percent(percent));
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

const tables = {
  hosts(fabric, filter, chosenKey, pick) {
    return fabric.hosts
      .filter((host) => fitsFilter(filter, `${host.name} ${host.id} ${host.address || ""} ${host.via || ""}`))
      .map((host) => ({
        pick: () => pick(host.id),
        isChosen: host.id === chosenKey,
        cells: [
          pickable(host.is_self ? `${host.name} (this)` : host.name, host.id, () => pick(host.id)),
          host.address || "none", host.is_self ? "this host" : host.hops === null ? "no route" : "reachable",
          words.count(host.hops), host.via || "", words.count(host.mtu), meter(host.processor), words.degrees(host.temperature),
        ],
      }));
  },

  links(fabric, filter, chosenKey, pick) {
    return fabric.links
      .filter((link) => fitsFilter(filter, `${link.name} ${link.state} ${link.ends.map((end) => end.interface || "").join(" ")}`))
      .map((link) => ({
        pick: () => pick(link.key),
        isChosen: link.key === chosenKey,
        cells: [
          pickable(link.name, link.key, () => pick(link.key)),
          make("span", { class: link.state === "gone" ? "bad-text" : link.state === "drained" ? "warn-text" : "" }, link.state === "gone" ? "down" : link.state),
          words.rate(link.sent[0]), words.rate(link.sent[1]), meter(link.load), words.count(link.errors), words.us(link.trip), words.bytes(link.queue), words.count(link.mtu),
        ],
      }));
  },
};

// SPDX-License-Identifier: Apache-2.0 OR MIT
// The merged log of all hosts, with a filter.

const LINES_KEPT = 5000;
const LINES_SHOWN = 400;

class Log {
  constructor(place) {
    this.place = place;
    this.lines = [];
    this.list = make("ol", { class: "log" });
    place.append(this.list);
  }

  clear() {
    this.lines = [];
    this.isStale = true;
  }

  add(lines) {
    if (!lines.length) return;
    this.lines.push(...lines);
    this.lines.sort((a, b) => a.at_s - b.at_s);
    this.lines.splice(0, Math.max(0, this.lines.length - LINES_KEPT));
    this.isStale = true;
  }

  /** Shows the newest lines first. */
  show(filter, isOnlyWarnings) {
    const key = `${filter} ${isOnlyWarnings}`;
    if (this.place.hidden || (!this.isStale && key === this.shown)) return;
    this.isStale = false;
    this.shown = key;
    const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (line) => {
      const text = `${line.host} ${line.text}`.toLowerCase();
      return (!isOnlyWarnings || line.is_warning) && wanted.every((word) => text.includes(word));
    };
    const found = this.lines.filter(fits);
    const items = [];
    let day = "";
    for (const line of found.slice(-LINES_SHOWN).reverse()) {
      const own = words.day(line.at_s);
      if (own !== day) items.push(make("li", { class: "day" }, own));
      day = own;
      const of = make("span", { class: "of", title: line.host }, line.host);
      const text = line.is_warning ? `warning: ${line.text}` : line.text;
      items.push(make("li", { class: line.is_warning ? "warning" : "" }, make("time", {}, words.clock(line.at_s)), of, make("span", {}, text)));
    }
    if (found.length > LINES_SHOWN) items.push(make("li", { class: "day" }, `${found.length - LINES_SHOWN} older lines: narrow the filter to see them`));
    if (!found.length) items.push(make("li", { class: "day" }, "no lines"));
    this.list.replaceChildren(...items);
  }
}

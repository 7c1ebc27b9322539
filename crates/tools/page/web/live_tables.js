// SPDX-License-Identifier: Apache-2.0 OR MIT
// Rows of hosts and links.

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

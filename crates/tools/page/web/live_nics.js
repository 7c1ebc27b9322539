// SPDX-License-Identifier: Apache-2.0 OR MIT
// The list of NICs, with the sums of their processes' links; and the links of the chosen one, a row for each.

/** Time between two looks while the list is shown. */
const NICS_PERIOD_MS = 3000;

/** The sum of a counter over all ways; null without links. */
function sumOf(nic, counter) {
  if (!nic.links || nic.links.unseen) return null;
  return nic.links.totals.reduce((sum, total) => sum + (total[counter] || 0), 0);
}

class Nics {
  /** `ask`: of a path of the server. */
  constructor(place, ask) {
    [this.place, this.ask] = [place, ask];
    [this.found, this.chosen, this.links, this.refused, this.filter] = [null, null, null, "", ""];
    const of = [make("div", { id: "nic-list" }), make("p", { id: "nic-notes", class: "said dim" })];
    this.linksTitle = make("p", { id: "nic-links-title", class: "said" });
    this.linksPlace = make("div", { id: "nic-links", hidden: true });
    place.append(...of, this.linksTitle, this.linksPlace);
    this.grid = new Grid(of[0], ["job", ">rank", "host", "kind", ">process", ">user", "routes to", ">links", ">sent", ">received", ">frames sent", ">repeats", ">damaged"]);
    this.linkGrid = new Grid(this.linksPlace, ["to", "way", "state", ">operations", ">sent", ">received", ">frames sent", ">frames received", ">repeats", ">damaged", ">round trip", ">queue", "why"]);
  }

  keyOf(nic) {
    return `${nic.at} ${nic.id}`;
  }

  /** Asks for the NICs, again and again while they are shown. */
  async load() {
    clearTimeout(this.timer);
    try {
      this.found = await this.ask("api/nics");
    } catch (error) {
      this.found = { nics: [], silent: [{ name: "", reason: error.message }], left_out: 0 };
    }
    await this.loadLinks();
    this.show(this.filter);
    clearTimeout(this.timer);
    if (!this.place.hidden) this.timer = setTimeout(() => this.load(), NICS_PERIOD_MS);
  }

  async loadLinks() {
    const chosen = this.chosen;
    if (!chosen) return;
    try {
      const links = await this.ask(`api/nics/links?host=${encodeURIComponent(chosen.at)}&nic=${chosen.id}`);
      if (chosen === this.chosen) [this.links, this.refused] = [links.links || null, ""];
    } catch (error) {
      if (chosen === this.chosen) [this.links, this.refused] = [null, error.message];
    }
  }

  async choose(nic) {
    [this.chosen, this.links, this.refused] = [nic, null, ""];
    this.show(this.filter);
    await this.loadLinks();
    this.show(this.filter);
    this.linksPlace.scrollIntoView({ block: "nearest" });
  }

  show(filter) {
    this.filter = filter;
    if (!this.found) return;
    this.grid.show(this.rows(filter));
    const notes = this.found.silent.map((one) => `${one.name}: ${one.reason}`);
    if (this.found.left_out) notes.push(`${this.found.left_out} hosts were not asked`);
    const unseen = this.found.nics.filter((nic) => nic.links && nic.links.unseen);
    if (unseen.length) notes.push(`the counters of ${unseen.length} processes are not seen; ${unseen[0].host}: ${unseen[0].links.unseen}`);
    find("nic-notes").textContent = notes.join("; ");
    this.showLinks();
  }

  rows(filter) {
    const nics = this.found.nics.filter((nic) => fitsFilter(filter, `${nic.job || ""} ${nic.host} ${nic.kind} ${nic.process} ${nic.user}`));
    nics.sort((a, b) => (a.job || "").localeCompare(b.job || "") || (a.rank ?? -1) - (b.rank ?? -1) || a.host.localeCompare(b.host));
    return nics.map((nic) => {
      const pick = nic.links ? () => this.choose(nic) : null;
      const job = nic.job || "no job";
      const frames = ["frames_out", "repeats", "damaged"].map((counter) => words.count(sumOf(nic, counter)));
      return {
        pick,
        isChosen: Boolean(this.chosen) && this.keyOf(nic) === this.keyOf(this.chosen),
        cells: [
          pick ? pickable(job, this.keyOf(nic), pick) : job, nic.rank ?? "–", nic.host, nic.kind, nic.process, nic.user,
          nic.leases.map((lease) => lease.to.name).join(", ") || "–",
          words.count(sumOf(nic, "links")), words.bytes(sumOf(nic, "bytes_out")), words.bytes(sumOf(nic, "bytes_in")), ...frames,
        ],
      };
    });
  }

  showLinks() {
    const nic = this.chosen;
    this.linksPlace.hidden = this.linksTitle.hidden = !nic;
    if (!nic) return;
    const { links } = this;
    const notes = [this.refused, links && links.unseen, links && links.left_out ? `${links.left_out} more are not listed` : ""].filter(Boolean);
    this.linksTitle.textContent = [`Links of ${nic.job || "a process without a job"}, rank ${nic.rank ?? "–"}, on ${nic.host}`, ...notes].join(": ");
    const rows = ((links && links.links) || []).map((link) => {
      const between = (counter) => (link.way === "memory" ? "–" : words.count(link[counter]));
      return {
        cells: [
          this.peer(nic, link), link.way, make("span", { class: link.state === "lost" ? "bad-text" : "" }, link.state), words.count(link.operations),
          words.bytes(link.bytes_out), words.bytes(link.bytes_in), between("frames_out"), between("frames_in"), between("repeats"), between("damaged"),
          link.round_trip_ns ? words.ns(link.round_trip_ns) : "–", words.bytes(link.queue_bytes), link.why,
        ],
      };
    });
    this.linkGrid.show(rows);
  }

  /** The rank at the other end of a link, if it is known; the address is that of a process of any host. */
  peer(nic, link) {
    const other = link.address && this.found.nics.find((one) => one.job === nic.job && one.links && one.links.address === link.address);
    const rank = link.peer_rank ?? (other ? other.rank : null);
    if (rank !== null && rank !== undefined) return other ? `rank ${rank} on ${other.host}` : `rank ${rank}`;
    return link.address || (link.way === "others" ? "others" : `host ${link.peer_nid} process ${link.peer_pid}`);
  }
}

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Running jobs: the communication matrix, and rates over time.
//
// Data, the event `jobs`: { at_s, interval_s, jobs: [{ name, program, size, block, cells, ranks, unnamed_operations,
// refused }] }. `block`: ranks of a row. `cells`: [[row, column, operations, bytes, operations a second, bytes a second]],
// the last two null where unknown. `ranks`: a record for each rank on this host. The event `end` has the same.

const SAMPLES_KEPT = 600;
/** What a logarithmic scale shows below its most. */
const DECADES = 6;
const MEASURES = {
  bytes_s: { at: 5, words: words.rate, of: "bytes_out_per_second", label: "Bytes per second" },
  operations_s: { at: 4, words: (value) => `${scaled(value, 1000, ["", "k", "M", "G"])}/s`.replace(" /s", "/s"), of: "operations_per_second", label: "Operations per second" },
  bytes: { at: 3, words: words.bytes, of: "bytes_out_per_second", label: "Bytes per second" },
  operations: { at: 2, words: words.count, of: "operations_per_second", label: "Operations per second" },
};

/** Jobs by name: { job, samples: [{ at, ranks }], hasEnded }. */
const seen = new Map();
let rank = null;

const matrix = new Matrix(find("matrix"), { describe: describeCell, chosen: () => choose(null) });
const rates = new Chart(find("rates"), (value) => rateWords()(value));
const grid = new Grid(find("ranks"), [">rank", ">process", "state", ">operations/s", ">sent/s", ">received/s", ">operations", ">sent", ">received", ">unexpected now", ">dropped", ">asleep"]);

function measure() {
  return MEASURES[find("measure").value];
}

/** The words for the values of the chart, which are rates. */
function rateWords() {
  return measure().of === "bytes_out_per_second" ? words.rate : MEASURES.operations_s.words;
}

function shown() {
  return seen.get(find("job").value) || null;
}

function take(picture) {
  for (const one of seen.values()) one.hasEnded = true;
  for (const job of picture.jobs) {
    const one = seen.get(job.name) || { samples: [] };
    Object.assign(one, { job, hasEnded: false });
    const areRatesKnown = job.ranks.some((of) => of.operations_per_second !== null);
    if (areRatesKnown) one.samples.push({ at: picture.at_s, ranks: new Map(job.ranks.map((of) => [of.rank, of])) });
    if (one.samples.length > SAMPLES_KEPT) one.samples.shift();
    seen.set(job.name, one);
  }
  showChoice();
  show();
}

function showChoice() {
  const choice = find("job");
  const names = [...seen.keys()].sort();
  const before = choice.value;
  const titles = names.map((name) => `${name}${seen.get(name).job.program ? `: ${seen.get(name).job.program}` : ""}${seen.get(name).hasEnded ? " (ended)" : ""}`);
  if ([...choice.options].map((option) => option.textContent).join("\n") !== titles.join("\n")) {
    choice.replaceChildren(...names.map((name, at) => make("option", { value: name }, titles[at])));
    const runs = names.find((name) => !seen.get(name).hasEnded);
    choice.value = seen.has(before) && !(seen.get(before).hasEnded && runs) ? before : runs || names[0] || "";
  }
  find("job-choice").hidden = names.length < 2;
}

function show() {
  const one = shown();
  if (!one) {
    find("summary").textContent = "no job of this user runs on this host";
    return;
  }
  const { job } = one;
  find("summary").textContent = `${job.program || job.name}, ${words.count(job.size)} ${job.size === 1 ? "rank" : "ranks"}${one.hasEnded ? ", ended" : ""}`;
  const { at } = measure();
  const most = job.cells.reduce((top, cell) => Math.max(top, cell[at] || 0), 0);
  find("most").textContent = most > 0 ? measure().words(most) : "most";
  const isLog = find("logarithmic").checked;
  const level = (value) => {
    if (!(value > 0) || !(most > 0)) return 0;
    return isLog ? Math.max(1 + Math.log10(value / most) / DECADES, 0.01) : value / most;
  };
  const levels = new Map(job.cells.map((cell) => [`${cell[0]},${cell[1]}`, level(cell[at])]));
  matrix.set(Math.ceil(job.size / job.block), levels, (row) => String(row * job.block));
  showChosen(one);
  showRates(one);
  showRanks(one);
}

function rowName(job, row) {
  const first = row * job.block;
  const last = Math.min(first + job.block, job.size) - 1;
  return first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
}

function cellOf(job, row, column) {
  return job.cells.find((cell) => cell[0] === row && cell[1] === column) || [row, column, 0, 0, 0, 0];
}

function facts(cell) {
  return [["bytes", words.bytes(cell[3])], ["operations", words.count(cell[2])], ["bytes per second", words.rate(cell[5])], ["operations per second", MEASURES.operations_s.words(cell[4])]];
}

function describeCell(row, column) {
  const one = shown();
  if (!one) return ["no job"];
  return [`${rowName(one.job, row)} → ${rowName(one.job, column)}`, ...facts(cellOf(one.job, row, column)).map(([name, value]) => `${name}: ${value}`)];
}

function factList(pairs) {
  return make("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function showChosen(one) {
  const cell = matrix.chosen;
  find("clear").hidden = !cell && rank === null;
  if (cell) {
    const names = [cell.row, cell.column].map((row) => rowName(one.job, row));
    find("chosen-title").textContent = "Chosen pair";
    const parts = [[0, 1], [1, 0]].map(([from, to]) => {
      const ends = [cell.row, cell.column];
      return [make("h3", {}, `${names[from]} → ${names[to]}`), factList(facts(cellOf(one.job, ends[from], ends[to])))];
    });
    find("chosen").replaceChildren(...(cell.row === cell.column ? parts[0] : parts.flat()));
    return;
  }
  const of = rank === null ? null : one.job.ranks.find((each) => each.rank === rank);
  find("chosen-title").textContent = of ? "Chosen rank" : "Chosen";
  if (!of) {
    find("chosen").replaceChildren(make("p", { class: "dim" }, "Choose a cell of the matrix, or a rank of the table."));
    return;
  }
  const partners = one.job.block > 1 ? [] : one.job.cells.filter((each) => each[0] === rank || each[1] === rank);
  const weight = (each) => each[3];
  const busiest = [...partners].sort((a, b) => weight(b) - weight(a)).slice(0, 8);
  find("chosen").replaceChildren(
    make("h3", {}, `rank ${of.rank}`),
    factList([["sent", words.bytes(of.bytes_out)], ["received", words.bytes(of.bytes_in)], ["operations", words.count(of.operations)]]),
    ...busiest.map((each) => make("div", {}, each[0] === rank ? `to rank ${each[1]}: ` : `from rank ${each[0]}: `, words.bytes(each[3]), `, ${words.count(each[2])} operations`)),
  );
}

function showRates(one) {
  const field = measure().of;
  const sum = (sample, name) => {
    const known = [...sample.ranks.values()].map((of) => of[name]).filter((value) => value !== null);
    return known.length ? known.reduce((a, b) => a + b, 0) : null;
  };
  const over = (name, of) => ({ name, points: one.samples.map((sample) => [sample.at, of(sample)]) });
  if (rank !== null) {
    const at = (sample, name) => (sample.ranks.has(rank) ? sample.ranks.get(rank)[name] : null);
    const series = field === "bytes_out_per_second"
      ? [over("sent", (sample) => at(sample, "bytes_out_per_second")), over("received", (sample) => at(sample, "bytes_in_per_second"))]
      : [over("operations started", (sample) => at(sample, field)), over("requests that came", (sample) => at(sample, "requests_per_second"))];
    find("rates-of").textContent = `rank ${rank}`;
    rates.set(series, `${measure().label} of rank ${rank}`);
    return;
  }
  find("rates-of").textContent = "all ranks on this host";
  rates.set([over("all ranks", (sample) => sum(sample, field))], `${measure().label} of all ranks`);
}

function showRanks(one) {
  const rows = one.job.ranks.map((of) => ({
    pick: () => choose(of.rank),
    isChosen: of.rank === rank,
    cells: [
      pickable(String(of.rank), String(of.rank), () => choose(of.rank)), of.os_pid ?? "–", make("span", { class: of.state === "ready" || of.state === "closed" ? "" : "bad-text" }, of.state),
      MEASURES.operations_s.words(of.operations_per_second), words.rate(of.bytes_out_per_second), words.rate(of.bytes_in_per_second),
      words.count(of.operations), words.bytes(of.bytes_out), words.bytes(of.bytes_in), words.count(of.unexpected), words.count(of.dropped), words.count(of.sleepers),
    ],
  }));
  grid.show(rows);
  const notes = [...one.job.refused];
  if (one.job.ranks.length < one.job.size) notes.push("ranks of other hosts show as ends of what ranks here send and receive");
  if (one.job.unnamed_operations) notes.push(`${words.count(one.job.unnamed_operations)} operations went to processes whose rank is not known`);
  find("notes").textContent = notes.join("; ");
}

/** Chooses a rank instead of a cell; null: no rank. */
function choose(chosen) {
  rank = chosen;
  if (chosen !== null) matrix.chosen = null;
  show();
}

find("measure").addEventListener("change", show);
find("logarithmic").addEventListener("change", show);
find("job").addEventListener("change", () => { rank = null; matrix.chosen = null; show(); });
find("clear").addEventListener("click", () => { matrix.chosen = null; choose(null); });

const source = new EventSource(`api/events${location.search}`);
const say = (kind, text) => {
  find("running").className = `chip ${kind}`;
  find("running").textContent = text;
};
source.addEventListener("jobs", (event) => {
  const picture = JSON.parse(event.data);
  take(picture);
  say(picture.jobs.length ? "good" : "", picture.jobs.length ? words.clock(picture.at_s).slice(0, 8) : "waiting for a job");
});
source.addEventListener("end", (event) => {
  source.close();
  take(JSON.parse(event.data));
  for (const one of seen.values()) one.hasEnded = true;
  say("", "ended");
  showChoice();
  show();
});
source.addEventListener("error", () => say("bad", "no connection: the command has ended, or the address lacks its key"));

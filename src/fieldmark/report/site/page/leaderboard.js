/* Which model is best at the tasks I care for? */

/** @type {[string, string, number, number][]} value, text, from, below (parameters) */
const SIZES = [
  ["small", "under 50 M", 1, 5e7],
  ["medium", "50 to 150 M", 5e7, 1.5e8],
  ["large", "150 to 500 M", 1.5e8, 5e8],
  ["huge", "500 M and more", 5e8, Infinity],
  ["unknown", "not known", 0, 1],
];

/** @param {Place} place */
function leaderboard(place) {
  const body = h("div", {});
  const draw = () => body.replaceChildren(...boardBody());
  const change = (/** @type {Record<string, string | null>} */ changes) => {
    remember(changes);
    draw();
  };
  draw();
  return [
    h("h1", {}, "Leaderboard"),
    h("p", { class: "facts" }, boardFacts()),
    h("p", { class: "facts" }, boardNotes()),
    boardFilters(place.options, change),
    body,
  ];
}

function boardFacts() {
  const until = summary.until ? ` · results up to ${summary.until.slice(0, 10)}` : "";
  const left = Object.entries(summary.left_out || {}).map(
    ([state, n]) => ` · ${counted(n, "run")} ${state === "running" ? "not finished" : state}`
  );
  return `${counted(models.length, "model")} · ${counted(tasks.length, "task")}${until}${left.join("")}`;
}

/** What a reader must know besides, as sentences. */
function boardNotes() {
  return (summary.notes || []).map((/** @type {string} */ note) => note.replace(/\.?$/, ".")).join(" ");
}

/** @param {URLSearchParams} options @param {(changes: Record<string, string | null>) => void} change */
function boardFilters(options, change) {
  const value = (/** @type {string} */ name) => options.get(name) || "";
  const shots = columns.map(trainText);
  const has = (/** @type {string[]} */ values) => new Set(values).size > 1;
  const families = models.map((each) => each.family), protocols = columns.map((each) => each.protocol);
  return h("form", { class: "filters", role: "search", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    search("Find a model", value("q"), (q) => change({ q })),
    has(families) && select("Family", anyOf(families), value("family"), (family) => change({ family })),
    models.some((each) => each.params) &&
      select(
        "Parameters",
        [["", "any"], ...SIZES.map(([name, text]) => /** @type {[string, string]} */ ([name, text]))],
        value("size"), (size) => change({ size })
      ),
    has(protocols) && select(
      "Protocol", anyOf(protocols), value("protocol"), (protocol) => change({ protocol })
    ),
    has(shots) && select("Training images", anyOf(shots), value("train"), (train) => change({ train })),
    taskTicks(options, change));
}

/** @param {Column} column */
function trainText(column) {
  if (column.shots) return `${column.shots} per class`;
  return column.n_train === null ? "all" : countText(column.n_train);
}

/** @param {URLSearchParams} options @param {(changes: Record<string, string | null>) => void} change */
function taskTicks(options, change) {
  const chosen = tickedNames(options);
  const text = () => (
    chosen.size === columns.length ? `Tasks: all ${columns.length}` : `Tasks: ${chosen.size} of ${columns.length}`
  );
  const title = h("summary", {}, text());
  const store = () => {
    title.textContent = text();
    change({ tasks: tickedText(chosen) });
  };
  const set = (/** @type {boolean} */ all) => {
    for (const each of columns) all ? chosen.add(each.name) : chosen.delete(each.name);
    for (const box of ticks.querySelectorAll("input")) box.checked = all;
    store();
  };
  const ticks = h("div", { class: "ticks" }, columns.map((column) =>
    tick(columnTitle(column), chosen.has(column.name), (on) => {
      on ? chosen.add(column.name) : chosen.delete(column.name);
      store();
    })));
  const buttons = h("p", {},
    h("button", { type: "button", class: "plain", onclick: () => set(true) }, "All"), " ",
    h("button", { type: "button", class: "plain", onclick: () => set(false) }, "None"));
  return h(
    "details", { class: "chooser" }, title,
    h("div", { class: "drop" }, h("p", {}, "The mean is over the tasks ticked here."), buttons, ticks)
  );
}

/** What the address says of the ticks; null: nothing, they are as at first. @param {Set<string>} chosen */
function tickedText(chosen) {
  const first = firstTicked();
  if (chosen.size === first.length && first.every((name) => chosen.has(name))) return null;
  return chosen.size === columns.length ? "all" : [...chosen].join(",") || "none";
}

/** @param {URLSearchParams} options */
function tickedNames(options) {
  const given = options.get("tasks");
  if (given === null) return new Set(firstTicked());
  const all = columns.map((each) => each.name);
  return new Set(given === "all" ? all : given.split(",").filter((name) => columnNamed(name)));
}

/** All, unless no model was asked all: then those of the way of asking with the most scores. */
function firstTicked() {
  const kinds = new Map();
  for (const cell of cells) {
    const kind = columns[cell.column].protocol.split("/")[0];
    kinds.set(kind, (kinds.get(kind) || 0) + 1);
  }
  const hasAll = models.some((_, model) => columns.every((column) => cellOf(model, column.number)));
  const [main] = [...kinds].sort((a, b) => b[1] - a[1])[0] || [""];
  return columns
    .filter((each) => hasAll || kinds.size < 2 || each.protocol.split("/")[0] === main)
    .map((each) => each.name);
}

function boardBody() {
  const options = here().options;
  const ticked = tickedNames(options), protocol = options.get("protocol"), train = options.get("train");
  const shown = columns.filter((each) =>
    ticked.has(each.name) && (!protocol || each.protocol === protocol) && (!train || trainText(each) === train));
  const rows = models.map((_, number) => number).filter((number) => isWanted(number, options, shown));
  if (!shown.length) return [h("p", { class: "empty" }, "No task is ticked: tick one above.")];
  if (!rows.length) return [h("p", { class: "empty" }, "No model fits these filters.")];
  say(`${counted(rows.length, "model")}, ${counted(shown.length, "task")}`);
  const means = meansOf(rows, shown);
  return [
    h("p", { class: "verdict" }, boardVerdict(means, shown)), boardTable(rows, shown, means, options),
    legend(shown)
  ];
}

/** @param {number} number @param {URLSearchParams} options @param {Column[]} shown */
function isWanted(number, options, shown) {
  const model = models[number];
  const words = (options.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${model.name} ${model.title}`.toLowerCase();
  const size = SIZES.find(([name]) => name === options.get("size"));
  const params = model.params || 0;
  return words.every((word) => text.includes(word)) &&
    (!options.get("family") || model.family === options.get("family")) &&
    (!size || (params >= size[2] && params < size[3])) &&
    shown.some((column) => cellOf(number, column.number));
}

/**
 * @typedef {{ heading: string, isRank: boolean, isUp: boolean, counted: Column[], of: Map<number, { value: number, half: number | null }> }} Means
 */

/** Over the shown tasks; a mean of ranks where units or directions differ. Models with gaps have none. Data
 * versions of one task never share a mean.
 * @param {number[]} rows @param {Column[]} every @returns {Means} */
function meansOf(rows, every) {
  const shown = countedOf(every);
  const kinds = new Set(shown.map((each) => `${each.is_up} ${each.is_fraction}`));
  const isRank = kinds.size > 1;
  const of = new Map();
  const ranks = isRank ? shown.map((column) => ranksIn(column, rows)) : [];
  for (const row of rows) {
    const mine = shown.map((column) => cellOf(row, column.number));
    if (mine.some((cell) => !cell || cell.value === null)) continue;
    const values = isRank ? ranks.map((each) => each.get(row) || 0) : mine.map((cell) => cell?.value ?? 0);
    const halves = mine.map(
      (cell) => (cell && cell.low !== null && cell.high !== null ? (cell.high - cell.low) / 2 : null)
    );
    const half = isRank || halves.includes(null) ? null : Math.sqrt(
      halves.reduce((sum, each) => sum + (each || 0) ** 2, 0)
    ) / shown.length;
    of.set(row, { value: values.reduce((sum, each) => sum + each, 0) / shown.length, half });
  }
  const isUp = !isRank && shown.length > 0 && shown[0].is_up;
  return {
    heading: isRank ? "mean rank" : "mean", isRank, isUp, counted: shown, of: shown.length > 1 ? of : new Map()
  };
}

/**
 * 1 for the best; equal values share the mean of their ranks.
 * @param {Column} column @param {number[]} rows
 */
function ranksIn(column, rows) {
  const sign = column.is_up ? -1 : 1;
  const known = rows.map(
    (row) => ({ row, key: sign * (cellOf(row, column.number)?.value ?? NaN) })
  ).filter((each) => !Number.isNaN(each.key));
  return new Map(known.map(({ row, key }) => {
    const better = known.filter((other) => other.key < key).length, equal = known.filter((other) => other.key === key).length;
    return [row, better + (equal + 1) / 2];
  }));
}

/** Those that count in a mean: a task that is shown in several data versions does not. @param {Column[]} shown */
function countedOf(shown) {
  const versions = (/** @type {Column} */ column) => (
    new Set(shown.filter((each) => each.task === column.task).map((each) => each.data)).size
  );
  return shown.filter((each) => each.is_counted || versions(each) === 1);
}

/** @param {Means} means @param {Column[]} every */
function boardVerdict(means, every) {
  const shown = means.counted;
  if (every.length === 1) return verdict(every[0]);
  if (shown.length === 1) return `${columnTitle(shown[0])}: ${verdict(shown[0])}`;
  if (!shown.length) return "Data versions of one task share no mean: choose one under Tasks.";
  const sign = means.isUp ? -1 : 1;
  const [best] = [...means.of].sort((a, b) => sign * (a[1].value - b[1].value));
  if (!best) return "No model has a score in every task shown, so there is no mean.";
  const mine = shown.map((column) => cellOf(best[0], column.number));
  const top = mine.filter((cell, at) => cell?.isTied || ranked(shown[at])[0] === cell).length;
  const value = means.isRank ? best[1].value.toFixed(1) : scoreText(best[1].value, shown[0]);
  return `${models[best[0]].name} has the best ${means.heading} over these ${shown.length} tasks (${value}). ` +
    `It is best, or not distinguishable from the best, in ${top} of them.`;
}

/** @param {Column[]} shown */
function legend(shown) {
  const level = `${100 * shown[0].level} %`;
  return h("p", { class: "legend" },
    h("span", { class: "swatch tied" }),
    "tier A: not distinguishable from the best of its column (paired tests on the same items, corrected for many models) · ",
    h("span", { class: "swatch second" }), "tier B: best of the rest · no shade: lower tiers · ",
    h("span", { class: "swatch bars" }), `score and ${level} interval · ± half of it; that of a mean takes the tasks as independent · ${MISSING} not run · models with gaps have no mean`,
    shown.filter((each) => each.warning).map((each) => h("span", { class: "weak" }, ` · ‡ ${each.heading}: ${weakText(each)}`)));
}

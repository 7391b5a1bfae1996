/* Leaderboard: which model is best at the tasks I care for? `table_view.js` draws its table. */

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
    summary.answer && h("p", { class: "answer-first" }, summary.answer),
    (summary.verdict ? summary.verdict.split("\n") : []).map((line, at) =>
      h("p", { class: at || summary.answer ? "verdict" : "verdict alone" }, marked(line))),
    strip(),
    h("p", { class: "facts" }, boardFacts()),
    boardNotes(),
    boardFilters(place.options, change),
    body,
  ];
}

/** Photos of the task that counts and that most models answered, and whether its best model was right about them. */
function strip() {
  const answered = columns.filter((each) => !each.is_valued && tasks[each.task].samples?.some(([, , said]) => said));
  const order = (/** @type {Column} */ each) => Number(each.is_counted) * cells.length + ranked(each).length;
  const [column] = answered.sort((a, b) => order(b) - order(a) || a.number - b.number);
  const best = column && ranked(column)[0];
  if (!best) return null;
  const task = tasks[column.task];
  const name = models[best.model].name;
  const photos = task.samples.map(([thumb, label, said]) => {
    const isRight = label === said;
    const text = isRight ? "right" : said || "no answer";
    const href = address("predictions", column.name, { a: name, truth: label, show: isRight ? "right" : "wrong" });
    return h("a", { class: "photo-small", href },
      h("img", { src: thumbAddress(thumb), alt: `Photo labelled ${label}`, loading: "lazy", width: 110, height: 110 }),
      h("span", { class: "truth" }, label),
      h("span", { class: `answer ${isRight ? "right" : "wrong"}` }, h("i", { "aria-hidden": "true" }, isRight ? "✓" : "✗"), text));
  });
  return h("section", { class: "strip" },
    h("p", { class: "facts" }, `Photos right and wrong, from ${columnTitle(column)}: the label, and the answer of ${name}`),
    scrolling("Photos right and wrong", h("div", { class: "strip-photos" }, photos)));
}

function boardFacts() {
  const until = summary.until ? ` · results up to ${summary.until.slice(0, 10)}` : "";
  const real = models.filter((each) => !each.stand_in);
  const n = new Set(real.map((each) => each.model)).size;
  const nOthers = new Set(models.filter((each) => each.stand_in).map((each) => each.model)).size;
  const setups = n < real.length ? ` in ${real.length} setups` : "";
  const beside = nOthers ? ` and ${counted(nOthers, "stand-in")}` : "";
  return `${counted(n, "model")}${setups}${beside} · ${counted(tasks.length, "task")}${until}`;
}

const MOST_TITLES = 5;

/** What a reader must know besides, as sentences; many are folded. */
function boardNotes() {
  const undone = Object.entries(summary.left_out || {}).map(([state, titles]) => {
    const more = titles.length > MOST_TITLES ? ` and ${titles.length - MOST_TITLES} more` : "";
    const what = state === "running" ? "not finished" : state;
    return `${counted(titles.length, "run")} ${what}: ${titles.slice(0, MOST_TITLES).join(", ")}${more}`;
  });
  const notes = [...(summary.notes || []), ...undone].map((note) => h("li", {}, marked(note.replace(/\.?$/, "."))));
  if (!notes.length) return null;
  return h("details", { class: "notes", open: notes.length <= 2 }, h("summary", {}, counted(notes.length, "note")), h("ul", {}, notes));
}

/** @param {URLSearchParams} options @param {(changes: Record<string, string | null>) => void} change */
function boardFilters(options, change) {
  const value = (/** @type {string} */ name) => options.get(name) || "";
  const has = (/** @type {string[]} */ values) => new Set(values).size > 1;
  const families = models.map((each) => each.family), setups = models.map((each) => each.setup).filter(Boolean);
  return h("form", { class: "filters", role: "search", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    search("Find a model", value("q"), (q) => change({ q })),
    has(families) && select("Family", anyOf(families), value("family"), (family) => change({ family })),
    models.some((each) => each.params) &&
      select(
        "Parameters",
        [["", "any"], ...SIZES.map(([name, text]) => /** @type {[string, string]} */ ([name, text]))],
        value("size"), (size) => change({ size })
      ),
    has(setups) && select("Setup", anyOf(setups), value("setup"), (setup) => change({ setup })),
    columns.length > 1 && taskTicks(options, change));
}

/** @param {URLSearchParams} options @param {(changes: Record<string, string | null>) => void} change */
function taskTicks(options, change) {
  const chosen = tickedNames(options);
  const text = () => (
    chosen.size === columns.length ? `Columns: all ${columns.length}` : `Columns: ${chosen.size} of ${columns.length}`
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
    h("div", { class: "drop" }, h("p", {}, "Ticks show and hide columns. Means and ranks stay those of all tasks that count."), buttons, ticks)
  );
}

/** What the address says of the ticks; null: all. @param {Set<string>} chosen */
function tickedText(chosen) {
  return chosen.size === columns.length ? null : [...chosen].join(",") || "none";
}

/** @param {URLSearchParams} options */
function tickedNames(options) {
  const given = options.get("tasks"), all = columns.map((each) => each.name);
  return new Set(given === null || given === "all" ? all : given.split(",").filter((name) => columnNamed(name)));
}

function boardBody() {
  const options = here().options;
  const ticked = tickedNames(options);
  const shown = columns.filter((each) => ticked.has(each.name));
  const rows = models.map((_, number) => number).filter((number) => isWanted(number, options, shown));
  if (!shown.length) return [h("p", { class: "empty" }, "No task is ticked: tick one above.")];
  if (!rows.length) return [h("p", { class: "empty" }, "No model fits these filters.")];
  say(`${counted(rows.length, "model")}, ${counted(shown.length, "task")}`);
  const n = shown.length + Number(summary.summed.headings.length > 0);
  const hint = n > 2 && h("p", { class: "facts sideways" }, `${n} columns: scroll the table sideways →`);
  return [hint, boardTable(rows, shown, options), legend(shown)].filter(Boolean);
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
    (!options.get("setup") || model.setup === options.get("setup")) &&
    (!size || (params >= size[2] && params < size[3])) &&
    shown.some((column) => cellOf(number, column.number));
}

/** @param {Column[]} shown */
function legend(shown) {
  const level = `${100 * shown[0].level} %`;
  const hasRank = (/** @type {string} */ word) => summary.summed.headings.includes(`rank (${word})`);
  return h("p", { class: "legend" },
    h("span", { class: "swatch tied" }),
    "A: could be the best model for this task · ",
    h("span", { class: "swatch second" }), "B: clearly worse than A; may be the best of the rest · no shade: further behind, or not compared · ",
    h("span", { class: "swatch bars" }), `dot: the score, line: its ${level} interval · ± margin of error (${level}), [low, high] where that would leave 0–100 · ${MISSING} not run`,
    hasRank("these tasks") && " · rank (these tasks): its place, given other photos of the same kind",
    hasRank("similar tasks") && " · rank (similar tasks): rank expected on similar tasks",
    shown.filter((each) => each.warning).map((each) => h("span", { class: "weak" }, ` · ‡ ${each.heading}: ${each.warning}`)));
}

/* What does a task ask, of which photos, and who answers best? */

function taskList() {
  const cards = tasks.map((task, number) => {
    const mine = columns.filter((each) => each.task === number);
    const sample = task.samples && task.samples[0];
    return h("li", {}, h("a", { class: "card", href: address("task", task.name) },
      sample ? h(
        "img", { src: thumbAddress(sample[0]), alt: "", loading: "lazy", width: 96, height: 96 }
      ) : h("span", { class: "blank" }, task.name.slice(0, 1)),
      h("span", {}, h("b", {}, task.title || task.name), h("small", {}, taskLine(mine)))));
  });
  return [h("h1", {}, "Tasks"), h("ul", { class: "cards" }, cards)];
}

/** @param {Column[]} mine */
function taskLine(mine) {
  const first = mine[0] && ranked(mine[0])[0];
  const verdicts = mine.filter((column) => column.verdict).map(
    (column) => mine.length > 1 && column.lines.length ? `${column.lines.join(", ")}: ${column.verdict}` : column.verdict
  );
  return verdicts.join(" ") ||
    (first ? `${models[first.model].name}: ${scoreText(first.value, mine[0])} (${mine[0].metric})` : "");
}

/** @param {Place} place */
function taskPage(place) {
  const number = tasks.findIndex((each) => each.name === place.name);
  if (number < 0) return notFound("task", place.name);
  const task = tasks[number];
  return [
    h("p", { class: "crumb" }, h("a", { href: "#/tasks" }, "Tasks"), ` / ${task.name}`),
    h("h1", {}, task.title || task.name),
    task.about && h("p", { class: "lead" }, task.about),
    samples(task),
    task.photos_note && h("p", { class: "facts" }, task.photos_note),
    ...columns.filter((each) => each.task === number).map(taskColumn),
    h("h2", {}, "The photos"), taskFacts(task),
  ];
}

/** @param {Task} task */
function samples(task) {
  if (!task.samples || !task.samples.length) return null;
  const figures = task.samples.map(([name, label]) => h("figure", {},
    h("img", { src: thumbAddress(name), alt: label ? `Photo labelled ${label}` : "Photo", loading: "lazy" }), h("figcaption", {}, label)));
  return h("div", { class: "samples" }, figures);
}

/** @param {Task} task */
function taskFacts(task) {
  const facts = [
    ["Dataset", task.dataset_title || task.dataset], ["Licence", task.licence], ["Citation", task.citation],
    ["Home page", task.homepage ? outside(task.homepage) : ""],
  ];
  return h(
    "dl", { class: "facts-list" },
    facts.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])
  );
}

/** @param {Column} column */
function taskColumn(column) {
  const several = columns.filter((each) => each.task === column.task).length > 1;
  const parts = h("details", { class: "parts" }, h("summary", {}, "Scores of the parts"));
  parts.addEventListener("toggle", () => fillParts(parts, column), { once: true });
  return h("section", { class: "panel" },
    h("h2", {}, several ? columnTitle(column) : "Scores"),
    column.verdict && h("p", { class: "verdict" }, marked(column.verdict)),
    h("p", { class: "facts" }, columnFacts(column)),
    column.warning && h("p", { class: "facts" }, `‡ ${column.warning}.`),
    ranked(column).filter((cell) => cell.unanswered).map(
      (cell) => h("p", { class: "facts" }, `† no answer counts as a wrong one: ${models[cell.model].name}: ${cell.unanswered}.`)
    ),
    scoreTable(
      ranked(column).map(
        (cell) => (
          { cell, column, name: models[cell.model].name, href: address("model", models[cell.model].name) }
        )
      ),
      "model"
    ),
    h("p", { class: "links" },
      h("a", { class: "button", href: address("predictions", column.name) }, "Browse predictions"),
      !column.is_valued && h("a", { class: "button", href: address("confusions", column.name) }, "Confusions")),
    column.has_parts && parts, fitDetails(column),
    h("details", { class: "parts" }, h("summary", {}, "Signature, to name these scores exactly"),
      column.signatures.map((each) => h("p", { class: "signature" }, h("code", {}, each)))));
}

/** @param {Column} column */
function columnFacts(column) {
  const chance = column.chance.length ? ` · guessing scores ${column.chance.join(" or ")}` : "";
  const guess = column.blind === null ? "" : ` · always giving the most common label scores ${scoreText(column.blind, column)}`;
  const weak = column.is_told === false ? "; even the best model is not clearly better than that" : "";
  return `${column.metric}, ${column.is_up ? "higher" : "lower"} is better${chance}${guess}${weak}`;
}

/** What the searches chose and which images were left out, model by model. @param {Column} column */
function fitDetails(column) {
  const told = ranked(column).filter((cell) => cell.fit.length || cell.leftOut);
  if (!told.length) return null;
  const rows = told.map((cell) => h("tr", {}, h("th", { scope: "row" }, models[cell.model].name),
    h("td", {}, cell.fit.map((line) => h("div", {}, line)), cell.leftOut && h("div", {}, `Left out, cannot be read: ${cell.leftOut}`))));
  const heads = h("tr", {}, h("th", { scope: "col" }, "model"), h("th", { scope: "col" }, "notes"));
  const table = h("table", { class: "plain-table" }, h("thead", {}, heads), h("tbody", {}, rows));
  return h("details", { class: "parts" }, h("summary", {}, "Notes of the runs, and images left out"), scrolling("Choices of the fits", table));
}

/**
 * Scores one under the other, on one scale.
 * @param {{ cell: Cell, column: Column, name: string, href: string }[]} lines @param {string} heading
 */
function scoreTable(lines, heading) {
  const scale = scaleOf(lines.map((each) => each.cell));
  const rows = lines.map(({ cell, column, name, href }) => h("tr", { class: tierClass(cell.tier), title: explain(cell, column) },
    h("th", { scope: "row" }, h("a", { href }, name)),
    h(
      "td", { class: "number" },
      h("b", {}, cell.value === null ? "undefined" : scoreText(cell.value, column)), cell.unanswered && h("sup", {}, "†")
    ),
    h(
      "td", { class: "number" },
      cell.low === null ? MISSING : `${scoreText(cell.low, column)} to ${scoreText(cell.high, column)}`
    ),
    h("td", { class: "wide" }, bar(cell.value, cell.low, cell.high, scale)),
    h("td", { class: "number" }, countText(cell.n)),
    h("td", { class: "tier" }, cell.tier, cell.isTied && h("span", { class: "more" }, " · could be best"))));
  const names = [heading, "score", "95 % interval", "", "photos", "tier"];
  const heads = names.map(
    (each, at) => h(
      each ? "th" : "td",
      { scope: each ? "col" : null, class: at && at !== 3 && at !== 5 ? "number" : null }, each
    )
  );
  return scrolling(
    `Scores by ${heading}`,
    h("table", { class: "scores" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))
  );
}

/** Parts × models, once they are asked for. @param {HTMLElement} place @param {Column} column */
async function fillParts(place, column) {
  const data = await loadColumn(column);
  const names = [...new Set(data.scores.map((each) => each[1]))];
  const at = new Map(data.scores.map((each) => [`${each[0]} ${each[1]}`, each]));
  const heads = h(
    "tr", {}, h("th", { scope: "col" }, "part"),
    data.models.map((each) => h("th", { scope: "col", class: "number" }, models[each].name))
  );
  const rows = names.map((name) => h("tr", {}, h("th", { scope: "row" }, name),
    data.models.map((_, number) => partCell(at.get(`${number} ${name}`), column))));
  return place.append(
    scrolling(
      "Scores of parts", h("table", { class: "plain-table" }, h("thead", {}, heads), h("tbody", {}, rows))
    )
  );
}

/** @param {any[] | undefined} score @param {Column} column */
function partCell(score, column) {
  if (!score) return h("td", { class: "number" }, MISSING);
  const [, , value, low, high, n] = score;
  const title = low === null ? `${n} items` : `${scoreText(low, column)} to ${scoreText(high, column)}, ${n} items`;
  return h(
    "td", { class: "number", title }, scoreText(value, column),
    low === null ? "" : h("small", {}, ` ${marginText(value, low, high, column)}`)
  );
}

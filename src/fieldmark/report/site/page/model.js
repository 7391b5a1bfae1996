/* What is one model good at? */

/** @param {Place} place */
function modelPage(place) {
  const number = modelNamed(place.name);
  if (number === null) return notFound("model", place.name);
  const model = models[number];
  const mine = cells.filter((cell) => cell.model === number);
  const facts = [
    ["Known as", model.title], ["Family", model.family === "own" ? "a file of one's own" : model.family],
    ["Parameters", model.params ? countText(model.params) : ""],
    ["Speed here", model.images_per_s ? `${model.images_per_s} images/s` : ""],
    ["Licence", model.licence], ["Released", model.released],
    ["Source", model.source ? outside(model.source) : ""],
  ];
  const other = models.findIndex((_, at) => at !== number); // the first of the table that it is not
  return [
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "Leaderboard"), " / model"),
    h("h1", {}, model.name),
    model.stand_in && h("p", { class: "lead" }, "A stand-in, not a model: it is in no verdict, tier, mean or rank."),
    h("p", { class: "verdict" }, modelSentence(number)),
    h(
      "dl", { class: "facts-list" },
      facts.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])
    ),
    other >= 0 && h(
      "p", { class: "links" },
      h(
        "a", { class: "button", href: address("compare", "", { a: model.name, b: models[other].name }) },
        "Compare with another"
      )
    ),
    h("h2", {}, "Scores"),
    scoreTable(
      mine.map(
        (cell) => (
          {
            cell, column: columns[cell.column], name: columnTitle(columns[cell.column]),
            href: address("predictions", columns[cell.column].name, { a: model.name })
          }
        )
      ),
      "task"
    ),
  ];
}

/** What a reader would say of it: where it could be the best, and its place. @param {number} number */
function modelSentence(number) {
  const { name, stand_in: standIn } = models[number];
  const told = columns.filter((column) => cellOf(number, column.number)?.tier);
  const best = told.filter((column) => cellOf(number, column.number)?.tier === "A");
  if (standIn || !told.length) return `${name} is not compared with the other models here.`;
  const where = best.length === told.length ? "" : `: ${best.map((column) => column.heading).join(", ")}`;
  const lead = told.length === 1
    ? `${name} ${best.length ? "could be the best model" : "is clearly behind the best model"} on ${columnTitle(told[0])}.`
    : best.length ? `${name} could be the best model on ${where ? `${best.length} of` : "all"} ${counted(told.length, "task")}${where}.`
    : `${name} is clearly behind the best model on each of ${counted(told.length, "task")}.`;
  const rank = summedTexts(number).find(([heading, text]) => heading.startsWith("rank") && text !== MISSING);
  return rank ? `${lead} Its rank over all tasks: ${rank[1]} of ${models.filter((each) => !each.stand_in).length}.` : lead;
}

/** @param {string} kind @param {string} name */
function notFound(kind, name) {
  return [
    h("h1", {}, "Not here"), h("p", {}, `This site has no ${kind} called “${name}”.`),
    h("p", {}, h("a", { href: "#/" }, "To the leaderboard"))
  ];
}

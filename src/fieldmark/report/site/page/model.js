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
    ["Speed when run", model.images_per_s ? `${model.images_per_s} images/s` : ""],
    ["Licence", model.licence], ["Released", model.released],
    ["Source", model.source ? outside(model.source) : ""],
  ];
  const other = models.findIndex((_, at) => at !== number); // the first of the table that it is not
  return [
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "Leaderboard"), " / model"),
    h("h1", {}, model.name),
    model.stand_in && h("p", { class: "lead" }, "A stand-in, not a model: it is in no verdict, tier, mean or rank."),
    modelFacts(number),
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

/** Its place in the table. @param {number} number */
function modelFacts(number) {
  const facts = summedTexts(number).filter(([, text]) => text !== MISSING);
  return facts.length > 0 && h("p", { class: "verdict" }, facts.map(([heading, text]) => `${heading} ${text}`).join(" · "));
}

/** @param {string} kind @param {string} name */
function notFound(kind, name) {
  return [
    h("h1", {}, "Not here"), h("p", {}, `This site holds no ${kind} called “${name}”.`),
    h("p", {}, h("a", { href: "#/" }, "To the leaderboard"))
  ];
}

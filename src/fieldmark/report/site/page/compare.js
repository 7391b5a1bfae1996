/* Is one model better than another, on the same items, and where? */

/** @param {Place} place */
function comparePage(place) {
  if (models.length < 2) return [
    h("h1", {}, "Compare"), h("p", {}, "Two models are needed; this site has one.")
  ];
  const a = modelNamed(place.options.get("a")) ?? 0;
  let b = modelNamed(place.options.get("b")) ?? modelNamed(bestOther(a));
  const every = models.map((_, number) => number);
  const shared = columns.filter((column) => cellOf(a, column.number) && cellOf(Number(b), column.number));
  const told = h("p", { class: "verdict" }, "Comparing item by item …");
  const body = h("tbody", {});
  const heads = [
    "task", models[a].name, models[Number(b)].name, "difference", "interval", "", "only one is right"
  ];
  compareRows(a, Number(b), shared, body, told);
  return [
    h("h1", {}, "Compare two models"),
    h("div", { class: "filters" },
      modelField("First", every, a, (name) => go({ a: name })),
      modelField("Second", every, b, (name) => go({ b: name })),
      h("button", { type: "button", class: "plain", onclick: () => go({ a: models[Number(b)].name, b: models[a].name }) }, "Swap")),
    told,
    scrolling("Differences per task", h("table", { class: "scores" },
      h("thead", {}, h("tr", {}, heads.map((each, at) => h(each ? "th" : "td", { scope: each ? "col" : null, class: at && at < 5 ? "number" : null }, breakable(each))))), body)),
    h(
      "p", { class: "legend" },
      "First minus second on the items both answered, with an interval from resamples that both share (units, not single frames). A difference whose interval holds 0 is not one these items can show."
    ),
  ];
}

/**
 * @param {number} a @param {number} b @param {Column[]} shared @param {HTMLElement} body
 * @param {HTMLElement} told
 */
async function compareRows(a, b, shared, body, told) {
  /** @type {{ column: Column, found: Difference | null }[]} */
  const results = [];
  for (const column of shared) {
    const data = await loadColumn(column);
    await new Promise((resolve) => setTimeout(resolve));
    results.push(
      { column, found: pairedDifference(data, data.models.indexOf(a), data.models.indexOf(b), column) }
    );
  }
  const reach = Math.max(
    0.01,
    ...results.flatMap(
      ({ column, found }) => (
        found && column.is_fraction ? [Math.abs(found.low), Math.abs(found.high)] : []
      )
    )
  );
  body.replaceChildren(...results.map(({ column, found }) => compareRow(a, b, column, found, reach)));
  told.textContent = compareVerdict(a, b, results);
  say(told.textContent);
}

/**
 * @param {number} a @param {number} b @param {Column} column @param {Difference | null} found
 * @param {number} reach
 */
function compareRow(a, b, column, found, reach) {
  const score = (/** @type {number} */ model) => h(
    "td", { class: "number" }, scoreText(cellOf(model, column.number)?.value ?? null, column)
  );
  const names = { a: models[a].name, b: models[b].name };
  const name = h(
    "th", { scope: "row" },
    h(
      "a", { href: address("predictions", column.name, { ...names, show: "differ" }) },
      breakable(columnTitle(column))
    )
  );
  if (!found) return h(
    "tr", {}, name, score(a), score(b), h("td", { class: "number" }, MISSING),
    h("td", { class: "number" }, "not compared here"), h("td", {}), h("td", {})
  );
  const wins = winner(found, column);
  const scale = /** @type {[number, number]} */ ([-reach, reach]);
  const one = (/** @type {number} */ n, /** @type {string} */ show, /** @type {string} */ who) =>
    h("a", { href: address("predictions", column.name, { ...names, show }) }, `${who} ${countText(n)}`);
  return h("tr", { class: wins ? "apart" : null }, name, score(a), score(b),
    h("td", { class: "number" }, h("b", {}, signedText(found.value, column))),
    h("td", { class: "number" }, `${signedText(found.low, column)} to ${signedText(found.high, column)}`),
    h(
      "td", { class: "wide zero" }, bar(found.value, found.low, found.high, scale),
      h(
        "small", {},
        wins ? `${wins > 0 ? "first" : "second"} is better` : `cannot be told apart; about ${scoreText(visible(found), column)} would show`
      )
    ),
    h("td", { class: "split" }, one(found.onlyFirst, "first", "first"), " · ", one(found.onlySecond, "second", "second")));
}

/** The smallest difference a test at 5 % would see 4 times in 5, from the width of the interval.
 * @param {Difference} found */
function visible(found) {
  return ((1.96 + 0.84) / 1.96) * ((found.high - found.low) / 2);
}

/**
 * 1: the first is better, -1: the second, 0: cannot be told.
 * @param {Difference} found @param {Column} column
 */
function winner(found, column) {
  const way = found.low > 0 ? 1 : found.high < 0 ? -1 : 0;
  return column.is_up ? way : -way;
}

/** @param {number} a @param {number} b @param {{ column: Column, found: Difference | null }[]} results */
function compareVerdict(a, b, results) {
  const known = results.filter((each) => each.found);
  if (!known.length) return "These models share no task that can be compared item by item.";
  const ways = known.map(({ column, found }) => winner(/** @type {Difference} */ (found), column));
  const count = (/** @type {number} */ way) => ways.filter((each) => each === way).length;
  const parts = [];
  if (count(1)) parts.push(`${models[a].name} is better in ${count(1)}`);
  if (count(-1)) parts.push(`${models[b].name} is better in ${count(-1)}`);
  if (count(0)) parts.push(`${count(0)} cannot tell them apart`);
  return `Of ${counted(known.length, "task")}: ${parts.join(", ")}. Each task is judged on its own, at ${100 * known[0].column.level} %.`;
}

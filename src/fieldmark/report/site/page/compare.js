/* Is one model better than another, on the same items, and where? As `fieldmark compare` found it. */

/**
 * One task of two rows, first minus second. side: 1 the first is better, -1 the second, 0 neither.
 * @typedef {{ column: Column, difference: number | null, low: number | null, high: number | null, p: number,
 *   corrected: number, side: number, visible: number | null, n: number, units: number, draws: number,
 *   discordant: number }} Compared
 * @typedef {{ verdict: string, more: string, note: string, methods: string[], tasks: Compared[] }} Comparison
 */

/** @param {Place} place */
function comparePage(place) {
  if (models.length < 2) return [
    h("h1", {}, "Compare"), h("p", {}, "Two models are needed; this site has one.")
  ];
  const every = models.map((_, number) => number);
  const rival = (/** @type {number} */ one) => every.find((other) => other !== one && columns.some(
    (column) => cellOf(one, column.number) && cellOf(other, column.number)
  ));
  const a = modelNamed(place.options.get("a")) ?? every.find((one) => rival(one) !== undefined) ?? 0;
  const b = modelNamed(place.options.get("b")) ?? rival(a) ?? (a ? 0 : 1);
  const body = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  fillComparison(a, b, body);
  return [
    h("h1", {}, "Compare two models"),
    h("div", { class: "filters" },
      modelField("First", every, a, (name) => go({ a: name })),
      modelField("Second", every, b, (name) => go({ b: name })),
      h("button", { type: "button", class: "plain", onclick: () => go({ a: models[b].name, b: models[a].name }) }, "Swap")),
    body,
  ];
}

/** @param {number} a @param {number} b @param {HTMLElement} body */
async function fillComparison(a, b, body) {
  try {
    const comparison = await loadComparison(a, b);
    body.replaceChildren();
    append(body, comparison ? comparisonBody(a, b, comparison) : [
      h("p", { class: "empty" }, a === b ? "Choose two different models." : "These two cannot be compared photo by photo.")
    ]);
    say(comparison?.verdict || "Not compared");
  } catch (error) {
    body.replaceChildren(h("p", { class: "empty" }, /** @type {Error} */ (error).message));
  }
}

/** The pair as it is stored, or turned round. @param {number} a @param {number} b @returns {Promise<Comparison | null>} */
async function loadComparison(a, b) {
  const isTurned = a > b, name = `compare-${models[isTurned ? b : a].key}`;
  await loadScript(`data/${name}.js`);
  const stored = received.get(name).pairs[isTurned ? a : b];
  return stored ? { ...stored, tasks: stored.tasks.map((/** @type {any[]} */ each) => readCompared(each, isTurned)) } : null;
}

/** @param {any[]} given @param {boolean} isTurned @returns {Compared} */
function readCompared(given, isTurned) {
  const [column, difference, low, high, p, corrected, side, visible, n, units, draws, discordant] = given;
  const turned = (/** @type {number | null} */ value) => (value === null || !isTurned ? value : -value);
  return {
    column: columns[column], difference: turned(difference), low: turned(isTurned ? high : low), high: turned(isTurned ? low : high),
    p, corrected, side: isTurned ? -side : side, visible, n, units, draws, discordant,
  };
}

/** @param {number} a @param {number} b @param {Comparison} comparison */
function comparisonBody(a, b, { verdict, more, note, methods, tasks: compared }) {
  const hasDraws = compared.some((each) => each.draws > 1), isAlone = compared.length === 1;
  const heads = [
    "task", models[a].name, models[b].name, "difference", "interval", "", "p", isAlone ? "" : "p, Holm", "photos", "units", hasDraws ? "draws" : ""
  ];
  const shares = compared.filter((each) => each.column.is_fraction);
  const reach = Math.max(0.01, ...shares.flatMap((each) => [Math.abs(each.low ?? 0), Math.abs(each.high ?? 0)]));
  const titles = heads.map((each, at) => h(each ? "th" : "td", { scope: each ? "col" : null, class: at ? "number" : null }, breakable(each)));
  const legend = [
    "First minus second, on the photos that both answered", isAlone ? "" : "better: after Holm's correction over all tasks",
    compared.some((each) => !each.side && each.visible !== null) ? "could be detected: the smallest difference that these photos would show 4 times in 5" : "",
    ...methods, note,
  ];
  return [
    h("p", { class: "verdict" }, marked(verdict)),
    more && h("p", { class: "facts" }, more),
    scrolling("Differences per task", h("table", { class: "scores compared" },
      h("thead", {}, h("tr", {}, titles)), h("tbody", {}, compared.map((each) => compareRow(a, b, each, reach, isAlone, hasDraws))))),
    h("p", { class: "legend" }, legend.filter(Boolean).join(" · ")),
  ];
}

/**
 * @param {number} a @param {number} b @param {Compared} one @param {number} reach @param {boolean} isAlone
 * @param {boolean} hasDraws
 */
function compareRow(a, b, one, reach, isAlone, hasDraws) {
  const column = one.column, names = { a: models[a].name, b: models[b].name };
  const number = (/** @type {Child} */ text) => h("td", { class: "number" }, text);
  const score = (/** @type {number} */ model) => number(scoreText(cellOf(model, column.number)?.value ?? null, column));
  const href = address("predictions", column.name, { ...names, show: "differ" });
  const range = column.is_fraction ? reach : Math.max(Math.abs(one.low ?? 0), Math.abs(one.high ?? 0));
  const more = one.visible === null ? "" : `; ${scoreText(one.visible, column)} could be detected`;
  const photos = h("a", { href, "aria-label": `Photos where the two differ on ${columnTitle(column)}` }, "photos");
  const verdict = one.side ? `${one.side > 0 ? "first" : "second"} is better` : "too close to call";
  return h("tr", { class: one.side ? "apart" : null, "data-column": column.name },
    h("th", { scope: "row" }, h("a", { href: address("task", tasks[column.task].name) }, breakable(columnTitle(column))), h("small", {}, ` ${column.metric}`)),
    score(a), score(b),
    h("td", { class: "number" }, h("b", {}, signedText(one.difference, column))),
    number(`${signedText(one.low, column)} to ${signedText(one.high, column)}`),
    h("td", { class: "wide zero" }, bar(one.difference, one.low, one.high, [-range, range]),
      h("small", {}, verdict, !one.side && h("span", { class: "more" }, more), " · ", photos)),
    number(pText(one.p)), number(isAlone ? "" : pText(one.corrected)),
    number(countText(one.n)), number(countText(one.units)), number(hasDraws ? countText(one.draws) : ""));
}

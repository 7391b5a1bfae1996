/* Which photos does a model get wrong, and do they look hard? */

/** @type {[string, string, boolean][]} value, text, needs two models */
const SHOWS = [
  ["", "all", false],
  ["right", "right", false],
  ["wrong", "wrong", false],
  ["unanswered", "without an answer", false],
  ["differ", "the two differ", true],
  ["first", "only the first is right", true],
  ["second", "only the second is right", true],
  ["both", "both are wrong", true],
];
const ORDERS = /** @type {[string, string][]} */ (
  [
    ["", "photos first"], ["data", "as in the data"], ["surest", "surest first"],
    ["least", "least sure first"], ["hard", "hardest first"]
  ]
);

/**
 * @typedef {{ a: number, b: number | null, show: string, truth: number, said: number, part: number, order: string, photos: boolean }} Wish
 */

/** @param {Place} place */
function predictionsPage(place) {
  const column = columnNamed(place.name) || columns[0];
  const body = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  fill(body, column, predictionsBody);
  return [h("h1", {}, "Predictions"), body];
}

/** @param {Column} column @param {Packed} data */
function predictionsBody(column, data) {
  const wish = readWish(column, data), found = matching(data, wish);
  const models2 = [wish.a, ...(wish.b === null ? [] : [wish.b])];
  const grid = found.length
    ? virtualGrid({
        n: found.length, width: innerWidth < 640 ? 150 : 196, height: models2.length > 1 ? 238 : 220,
        label: "Predictions",
        draw: (at) => predictionCard(data, found, at, models2, column),
      })
    : h("p", { class: "empty" }, "No prediction fits these filters.");
  const right = found.reduce((sum, item) => sum + Number(isRight(data, wish.a, item)), 0);
  const first = models[data.models[wish.a]].name;
  const told = isJudged(data) ? ` · ${first} is right on ${countText(right)} of those shown` : "";
  const text = `${countText(found.length)} of ${counted(data.n, "prediction")}${told}`;
  say(text);
  const note = tasks[column.task].photos_note;
  return [predictionFilters(column, data, wish), h("p", { class: "facts" }, note ? `${text} · ${note}` : text), grid];
}

/** @param {Column} column @param {Packed} data @returns {Wish} */
function readWish(column, data) {
  const options = here().options;
  const place = (/** @type {string} */ name) => {
    const model = modelNamed(options.get(name));
    const at = model === null ? -1 : data.models.indexOf(model);
    return at < 0 ? null : at;
  };
  const label = (/** @type {string} */ name) => (
    options.has(name) ? data.labels.indexOf(options.get(name) || "") + 1 : 0
  );
  const best = Math.max(0, data.models.indexOf(ranked(column)[0]?.model ?? 0));
  const a = place("a") ?? best;
  const b = place("b") === a ? null : place("b");
  const show = shows(data).find(([value]) => value === options.get("show"));
  return {
    a, b,
    show: show && (b !== null || !show[2]) ? show[0] : "",
    truth: label("truth"), said: label("said"),
    part: options.has("part") ? data.parts.indexOf(options.get("part") || "") : -1,
    order: options.get("order") || "", photos: options.get("photos") === "1",
  };
}

/** What can be asked for. @param {Packed} data */
function shows(data) {
  return SHOWS.filter(([value]) => isJudged(data) || ["", "unanswered", "differ"].includes(value));
}

/** @param {Packed} data */
function orders(data) {
  if (!data.judged) return ORDERS;
  const kept = ORDERS.filter(([value]) => value !== "" && (isJudged(data) || value !== "hard"));
  const words = new Map([["surest", "highest value first"], ["least", "lowest value first"]]);
  return kept.map(
    ([value, text]) => /** @type {[string, string]} */ ([value, words.get(value) || text])
  ).filter(([value]) => data.judged !== "texts" || !words.has(value));
}

/** @param {Column} column @param {Packed} data @param {Wish} wish */
function predictionFilters(column, data, wish) {
  const possible = shows(data).filter(([, , two]) => !two || wish.b !== null).map(
    ([value, text]) => /** @type {[string, string]} */ ([value, text])
  );
  const options = here().options;
  const given = (/** @type {ArrayLike<number>[]} */ all) => {
    const codes = new Set(all.flatMap((some) => [...new Set(Array.from(some))]));
    return data.labels.filter((_, at) => codes.has(at + 1));
  };
  return h("div", { class: "filters narrow" },
    columnField(
      column,
      (name) => { location.hash = address("predictions", name, { a: options.get("a"), b: options.get("b") }); }
    ),
    modelField("Model", data.models, data.models[wish.a], (a) => go({ a })),
    data.models.length > 1 && modelField(
      "Compare with", data.models.filter((each) => each !== data.models[wish.a]),
      wish.b === null ? null : data.models[wish.b], (b) => go({ b }), "no other"
    ),
    select("Show", possible, wish.show, (show) => go({ show })),
    labelField("Truth", given([data.target]), options.get("truth") || "", (truth) => go({ truth })),
    labelField("Answer", given(data.answers), options.get("said") || "", (said) => go({ said })),
    data.parts.length > 1 && labelField(
      "Part", data.parts, options.get("part") || "", (part) => go({ part })
    ),
    select("Order", orders(data), wish.order, (order) => go({ order })),
    data.thumb && tick("with a photo", wish.photos, (on) => go({ photos: on ? "1" : null })));
}

/** Items that fit, in order. @param {Packed} data @param {Wish} wish @returns {Uint32Array} */
function matching(data, wish) {
  const answer = data.answers[wish.a];
  const found = [];
  for (let i = 0; i < data.n; i++) {
    if (wish.truth && data.target[i] !== wish.truth) continue;
    if (wish.said && answer[i] !== wish.said) continue;
    if (wish.part >= 0 && data.part[i] !== wish.part) continue;
    if (wish.photos && !thumbOf(data, i)) continue;
    if (wish.show && !isShown(data, i, wish)) continue;
    found.push(i);
  }
  return ordered(data, wish, Uint32Array.from(found));
}

/** @param {Packed} data @param {number} item @param {Wish} wish */
function isShown(data, item, { show, a, b }) {
  const said = data.answers[a][item], other = b === null ? 0 : data.answers[b][item];
  const first = isRight(data, a, item), second = b !== null && isRight(data, b, item);
  if (show === "right") return first;
  if (show === "wrong") return !first && said > 0;
  if (show === "unanswered") return said === 0;
  if (show === "differ") return said !== other;
  if (show === "first") return first && !second;
  if (show === "second") return !first && second;
  return !first && !second;
}

/** @param {Packed} data @param {Wish} wish @param {Uint32Array} found */
function ordered(data, wish, found) {
  if (wish.order === "data" || (!wish.order && !data.thumb)) return found;
  const sure = data.sure[wish.a];
  const key = new Float64Array(data.n);
  for (const i of found) {
    if (!wish.order) key[i] = thumbOf(data, i) ? 0 : 1;
    else if (wish.order === "hard") key[i] = -data.answers.reduce(
      (sum, _, model) => sum + Number(!isRight(data, model, i)), 0
    );
    else if (sure[i] === NO_SCORE) key[i] = Infinity;
    else key[i] = wish.order === "surest" ? -sure[i] : sure[i];
  }
  return found.sort((x, y) => key[x] - key[y] || x - y);
}

/** @param {Packed} data @param {Uint32Array} found @param {number} place @param {number[]} which @param {Column} column */
function predictionCard(data, found, place, which, column) {
  const item = found[place];
  const target = labelOf(data, data.target[item]), src = thumbOf(data, item);
  const said = which.map((model) => answerLine(data, model, item, which.length > 1));
  const open = () => showItems(data, found, place, column, which);
  return h("button", { type: "button", class: "photo", onclick: open, title: data.ids[data.id[item]] },
    src ? h(
      "img", { src, alt: "", loading: "lazy", decoding: "async" }
    ) : h("span", { class: "blank" }, target.slice(0, 1) || "?"),
    h("span", { class: "truth" }, target), said);
}

/** @param {Packed} data @param {number} model @param {number} item @param {boolean} named */
function answerLine(data, model, item, named) {
  const code = data.answers[model][item];
  const kind = code === 0 ? "lost" : !isJudged(data) ? "said" : isRight(data, model, item) ? "right" : "wrong";
  const mark = { lost: "○", right: "✓", wrong: "✗", said: "" }[kind];
  const words = { lost: "no answer", right: "right", wrong: labelOf(data, code), said: labelOf(data, code) };
  const word = data.judged && code ? words.said : words[kind];
  const who = named ? `${models[data.models[model]].name.split("/").pop()}: ` : "";
  return h("span", { class: `answer ${kind}` }, h("i", { "aria-hidden": "true" }, mark), `${who}${word}`);
}

/** A dialog on one prediction; arrow keys and buttons go to the next.
 * @param {Packed} data @param {Uint32Array} found @param {number} place @param {Column} column @param {number[]} which */
function showItems(data, found, place, column, which) {
  const body = h("div", {});
  const where = h("span", { class: "facts", role: "status" });
  const go = (/** @type {number} */ to) => {
    if (to < 0 || to >= found.length) return;
    place = to;
    where.textContent = `${countText(place + 1)} of ${countText(found.length)}`;
    body.replaceChildren();
    append(body, itemParts(data, found[place], column, which));
  };
  const step = (/** @type {string} */ text, /** @type {string} */ label, /** @type {number} */ by) =>
    h("button", { type: "button", class: "plain", "aria-label": label, onclick: () => go(place + by) }, text);
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "item", "aria-label": "One prediction" },
    h("form", { method: "dialog", class: "steps" }, step("←", "Previous", -1), where, step("→", "Next", 1),
      h("button", { class: "plain", autofocus: true }, "Close")),
    body));
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") go(place + 1);
    if (event.key === "ArrowLeft") go(place - 1);
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  go(place);
}

/** All that is known of an item; the chosen models first.
 * @param {Packed} data @param {number} item @param {Column} column @param {number[]} which */
function itemParts(data, item, column, which) {
  const src = thumbOf(data, item), hasSure = data.models.some((_, at) => sureOf(data, at, item) !== null);
  const order = chosenFirst(data, which);
  const rows = order.map((at) => {
    const model = data.models[at];
    const sure = sureOf(data, at, item);
    return h(
      "tr", {}, h("th", { scope: "row" }, breakable(models[model].name)),
      h("td", {}, answerLine(data, at, item, false)),
      hasSure && h("td", { class: "number" }, sure === null ? "" : Number(sure.toPrecision(3)).toString().replace("-", "−"))
    );
  });
  const heads = ["model", "answer", ...(hasSure ? [data.judged ? column.metric : "score"] : [])]
    .map((each, at) => h("th", { scope: "col", class: at === 2 ? "number" : null }, each));
  const part = data.parts[data.part[item]];
  const replies = h("div", {});
  if (column.has_replies) showReplies(data, item, column, replies, which);
  return [
    src && h("img", { src, alt: "", class: column.has_replies ? "low" : null }),
    h("h2", {}, labelOf(data, data.target[item])),
    h(
      "p", { class: "facts" }, `${columnTitle(column)}${part ? ` · ${part}` : ""} · `,
      h("code", {}, data.ids[data.id[item]])
    ),
    scrolling("Answers", h("table", { class: "plain-table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))),
    hasSure && !data.judged && h("p", { class: "facts" }, "Score: how strongly the model chose its answer. You cannot compare the scores of two models."),
    replies,
  ];
}

/** Places of all models, the chosen ones first. @param {Packed} data @param {number[]} which */
function chosenFirst(data, which) {
  return [...new Set([...which, ...data.models.keys()])];
}

/** What chat models were asked and wrote; the chosen ones are open.
 * @param {Packed} data @param {number} item @param {Column} column @param {HTMLElement} body @param {number[]} which */
async function showReplies(data, item, column, body, which) {
  const texts = await loadReplies(column);
  const known = chosenFirst(data, which).filter((at) => texts[at]?.[item]);
  const open = known.filter((at) => which.includes(at));
  for (const at of known) {
    const [prompt, reply, why] = texts[at][item] || ["", "", ""];
    const isOpen = open.length ? open.includes(at) : at === known[0];
    append(body, [h("details", { class: "parts", open: isOpen }, h("summary", {}, models[data.models[at]].name),
      prompt && [h("p", { class: "facts" }, "asked"), h("pre", {}, prompt)],
      h("p", { class: "facts" }, why ? `replied, not counted as an answer: ${why}` : "replied"),
      h("pre", {}, reply || "nothing"))]);
  }
}

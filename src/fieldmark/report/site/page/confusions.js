/* Which labels does a model mix up? */

const MOST_PAIRS = 40;

/** @param {Place} place */
function confusionsPage(place) {
  const column = columnNamed(place.name) || columns[0];
  const body = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  fill(body, column, confusionsBody);
  return [h("h1", {}, "Confusions"), body];
}

/** @param {Column} column @param {Packed} data */
function confusionsBody(column, data) {
  if (data.judged) return [
    h("div", { class: "filters" },
      columnField(column, (chosen) => { location.hash = address("confusions", chosen, {}); })),
    h("p", { class: "empty" }, "These answers are texts, not labels: nothing is mixed up."),
  ];
  const best = ranked(column)[0];
  const asked = modelNamed(here().options.get("a"));
  const model = Math.max(0, data.models.indexOf(asked ?? (best ? best.model : -1)));
  const pairs = confusionPairs(data, model);
  const name = models[data.models[model]].name;
  const most = Math.max(1, ...pairs.map((each) => each.n));
  const rows = pairs.slice(0, MOST_PAIRS).map((pair) => confusionRow(column, data, pair, name, most));
  const heads = [
    "label", "taken for", data.parts.length > 1 ? "part" : null, "photos", "of", "the other way", ""
  ].filter((each) => each !== null);
  const many = pairs.length > MOST_PAIRS ? ` The first ${MOST_PAIRS} of ${countText(pairs.length)} pairs are shown.` : "";
  return [
    h("div", { class: "filters" },
      columnField(column, (chosen) => { location.hash = address("confusions", chosen, { a: name }); }),
      modelField("Model", data.models, data.models[model], (a) => go({ a }))),
    h("p", { class: "verdict" }, confusionVerdict(data, pairs, name) + many),
    pairs.length > 0 && scrolling("Confused pairs", h("table", { class: "scores confused" },
      h("thead", {}, h("tr", {}, heads.map((each) => h(each ? "th" : "td", { scope: each ? "col" : null, class: { photos: "number", of: "number", "the other way": "number back" }[each] || null }, each)))), h("tbody", {}, rows))),
  ];
}

/** @typedef {{ truth: number, said: number, part: number, n: number, of: number, back: number }} Pair */

/** Most frequent first. @param {Packed} data @param {number} model @returns {Pair[]} */
function confusionPairs(data, model) {
  const wide = data.labels.length + 1, answer = data.answers[model];
  const size = new Map(), counts = new Map();
  const add = (
    /** @type {Map<number, number>} */ map, /** @type {number} */ key
  ) => map.set(key, (map.get(key) || 0) + 1);
  for (let i = 0; i < data.n; i++) {
    if (!answer[i] || !data.target[i]) continue;
    const first = data.part[i] * wide + data.target[i];
    add(size, first);
    if (answer[i] !== data.target[i]) add(counts, first * wide + answer[i]);
  }
  const pairs = [...counts].map(([key, n]) => {
    const said = key % wide, first = Math.floor(key / wide), truth = first % wide, part = Math.floor(first / wide);
    return {
      truth, said, part, n, of: size.get(first) || n,
      back: counts.get((part * wide + said) * wide + truth) || 0
    };
  });
  return pairs.sort((x, y) => y.n - x.n || y.n / y.of - x.n / x.of || x.truth - y.truth || x.said - y.said);
}

/**
 * @param {Column} column @param {Packed} data @param {Pair} pair @param {string} name
 * @param {number} most
 */
function confusionRow(column, data, pair, name, most) {
  const [truth, said] = [labelOf(data, pair.truth), labelOf(data, pair.said)];
  const part = data.parts[pair.part];
  const href = address(
    "predictions", column.name, { a: name, truth, said, part: data.parts.length > 1 ? part : null }
  );
  const photos = pairPhotos(data, pair, data.models.indexOf(modelNamed(name) ?? -1));
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href }, truth)), h("td", {}, said, photos),
    data.parts.length > 1 && h("td", {}, part),
    h("td", { class: "number" }, h("b", {}, countText(pair.n))),
    h("td", { class: "number" }, countText(pair.of)),
    h("td", { class: "number back" }, pair.back ? countText(pair.back) : MISSING),
    h("td", { class: "wide" }, h("span", { class: "amount", "aria-hidden": "true", vars: { v: `${(100 * pair.n) / most}%` } })));
}

const MOST_PHOTOS = 3;

/** The first photos that were confused so. @param {Packed} data @param {Pair} pair @param {number} model */
function pairPhotos(data, pair, model) {
  const found = [];
  for (let i = 0; data.thumb && i < data.n && found.length < MOST_PHOTOS; i++) {
    const isPair = data.target[i] === pair.truth && data.answers[model][i] === pair.said && data.part[i] === pair.part;
    if (isPair && thumbOf(data, i)) found.push(thumbOf(data, i));
  }
  return found.length > 0 && h("div", { class: "pair-photos" }, found.map((src) => h("img", { src, alt: "", loading: "lazy", width: 56, height: 56 })));
}

/** @param {Packed} data @param {Pair[]} pairs @param {string} name */
function confusionVerdict(data, pairs, name) {
  if (!pairs.length) return `${name} makes no mistake here.`;
  const { truth, said, n, of, back } = pairs[0];
  const both = back ? `, and ${countText(back)} the other way` : "";
  return `${name} most often takes ${labelOf(data, truth)} for ${labelOf(data, said)}: ${countText(n)} of ${counted(of, "photo")}${both}.`;
}

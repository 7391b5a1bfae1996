/* How is the big table drawn and sorted? Rows are made once; sorting moves them. */

const MOST_SPACIOUS = 600;
/** letters of a heading's word that fit; longer words are set smaller, then the column grows, then they break */
const LETTERS = { fit: 8, most: 20, smallest: 0.75 };
/** @type {WeakMap<Element, Cell>} */ const behind = new WeakMap();

/** @param {number[]} rows @param {Column[]} shown @param {URLSearchParams} options */
function boardTable(rows, shown, options) {
  const headings = /** @type {string[]} */ (summary.summed.headings);
  const scales = shown.map((column) => scaleOf(cells.filter((cell) => cell.column === column.number)));
  const isCompact = rows.length * shown.length > MOST_SPACIOUS;
  const lines = new Map(rows.map((row) => [row, boardRow(row, shown, scales, isCompact)]));
  const body = h("tbody", { onpointerover: explainCell, onfocusin: explainCell });
  const heads = h("tr", {},
    head("model", "model", "", options),
    headings.map((heading, at) => at ? h("th", { scope: "col", class: "mean" }, heading) : head("mean", heading, "all tasks that count", options)),
    shown.map((column) => head(column.name, column.heading, column.is_up ? "↑" : "↓", options, column)));
  const sort = (/** @type {string} */ key, /** @type {boolean} */ down) => {
    const order = sorted(rows, key, down, shown);
    body.append(...order.map((row) => /** @type {HTMLElement} */ (lines.get(row))));
    for (const each of heads.children) {
      if (each.getAttribute("data-key") === key) each.setAttribute(
        "aria-sort", down ? "descending" : "ascending"
      );
      else each.removeAttribute("aria-sort");
    }
  };
  heads.addEventListener("click", (event) => {
    const button = /** @type {Element} */ (event.target).closest("button");
    if (button) nextSort(/** @type {Element} */ (button.closest("th")), shown, sort);
  });
  const key = options.get("sort") || (headings.length ? "mean" : shown[0].name);
  sort(key, options.has("dir") ? options.get("dir") === "down" : isDownFirst(key, shown));
  const caption = h(
    "caption", { class: "unseen" },
    "Scores of models (rows) on tasks (columns); buttons in the heading sort."
  );
  const frame = boardFrame(shown.length + Number(headings.length > 0), caption, heads, body, Math.max(headings.length - 1, 0));
  const longest = Math.max(...shown.map((column) => longestPiece(column.heading)));
  setVars(frame, { wide: columnWidth(longest), fit: Math.min(1, Math.max(LETTERS.smallest, LETTERS.fit / longest)) });
  return scrolling("Scores of models on tasks", frame);
}

/** So wide that headings break after a sign, not inside a word. @param {number} longest */
function columnWidth(longest) {
  return `${0.9 + 0.58 * LETTERS.smallest * Math.min(longest, LETTERS.most)}rem`;
}

/** @param {string} heading */
function longestPiece(heading) {
  return Math.max(...pieces(heading).map((piece) => piece.length));
}

/** Columns of a fixed width: the browser need not measure thousands of cells to find one.
 * @param {number} n of columns beside the first @param {Child} caption @param {HTMLElement} heads @param {HTMLElement} body
 * @param {number} [summed] narrow columns after the second */
function boardFrame(n, caption, heads, body, summed = 0) {
  const widths = h("colgroup", {}, h("col", { class: "first" }),
    summed > 0 && [h("col", { class: "other" }), h("col", { span: summed, class: "summed" })], h("col", { span: n - Number(summed > 0), class: "other" }));
  return h("table", { class: "board", vars: { n, summed } }, caption, widths, h("thead", {}, heads), body);
}

/**
 * @param {Element} th @param {Column[]} shown
 * @param {(key: string, down: boolean) => void} sort
 */
function nextSort(th, shown, sort) {
  const key = th.getAttribute("data-key") || "";
  const before = th.getAttribute("aria-sort");
  const down = before ? before === "ascending" : isDownFirst(key, shown);
  remember({ sort: key, dir: down ? "down" : "up" });
  sort(key, down);
  say(`Sorted by ${th.textContent}, ${down ? "descending" : "ascending"}`);
}

/** Best first. @param {string} key @param {Column[]} shown */
function isDownFirst(key, shown) {
  if (key === "model") return false;
  return key === "mean" || (shown.find((each) => each.name === key)?.is_up ?? true);
}

/**
 * @param {string} key @param {string} text @param {string} arrow @param {URLSearchParams} options
 * @param {Column} [column]
 */
function head(key, text, arrow, options, column) {
  const lines = column ? [...column.lines, column.warning ? `${column.metric} ‡` : column.metric] : [];
  return h("th", { scope: "col", "data-key": key, class: key === "model" ? "first" : key === "mean" ? "mean" : null },
    h("button", { type: "button", class: "sort", title: `Sort by ${text}` },
      h("span", {}, breakable(text)), h("small", {}, breakable([lines.join(" · "), arrow].filter(Boolean).join("\u00a0")))),
    column && h("a", { class: "about", href: address("task", tasks[column.task].name), "aria-label": `About ${text}` }, "about"));
}

/**
 * @param {number} row @param {Column[]} shown @param {[number, number][]} scales @param {boolean} isCompact
 */
function boardRow(row, shown, scales, isCompact) {
  const model = models[row];
  const note = [model.title, paramsText(model.params)].filter(Boolean).join(" · ");
  return h("tr", {},
    h(
      "th", { scope: "row", class: "first", title: model.name },
      h("a", { href: address("model", model.name) }, breakable(model.name)),
      note && h("small", { title: note }, note)
    ),
    summedTexts(row).map(([, text]) => h("td", { class: "mean" }, meanText(text))),
    shown.map((column, at) => boardCell(cellOf(row, column.number), column, scales[at], isCompact)));
}

/** A mean with its margin quieter. @param {string} text */
function meanText(text) {
  const [value, margin] = text.split(/ (?=[±[])/);
  return [h("b", {}, value), margin ? h("small", {}, margin.replace("± ", "±")) : ""];
}

/** The interval is the cell's background: with thousands of cells, every element counts.
 * @param {Cell | undefined} cell @param {Column} column @param {[number, number]} scale @param {boolean} isCompact */
function boardCell(cell, column, scale, isCompact) {
  if (!cell) return h("td", { class: "none" }, MISSING);
  const margin = marginText(cell.value, cell.low, cell.high, column);
  const link = h("a", { href: address("predictions", column.name, { a: models[cell.model].name }) },
    cell.value === null ? "undefined" : scoreText(cell.value, column));
  const style = cell.value === null ? null : barStyle(cell.value, cell.low, cell.high, scale);
  const td = h("td", { class: tierClass(cell.tier), style }, link,
    margin && !isCompact && h("small", {}, margin),
    cell.unanswered && h("sup", { title: `no answer counts as a wrong one: ${cell.unanswered}` }, "†"));
  behind.set(td, cell);
  return td;
}

/** Writes the sentence behind a number when somebody points at it. @param {Event} event */
function explainCell(event) {
  const td = /** @type {Element} */ (event.target).closest("td");
  const cell = td && behind.get(td);
  if (td && cell && !td.title) td.title = explain(cell, columns[cell.column]);
}

/** @param {string | null} tier */
function tierClass(tier) {
  return tier === "A" ? "tied" : tier === "B" ? "second" : null;
}

/** Models without a value come last either way, and after them stand-ins. @param {number[]} rows @param {string} key @param {boolean} down
 * @param {Column[]} shown */
function sorted(rows, key, down, shown) {
  const sign = down ? -1 : 1;
  const name = (/** @type {number} */ row) => models[row].name;
  if (key === "model") return [...rows].sort((a, b) => sign * name(a).localeCompare(name(b), "en", { numeric: true }));
  const column = shown.find((each) => each.name === key);
  const value = (/** @type {number} */ row) => column ? cellOf(row, column.number)?.value ?? null : placeOf(row);
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], apart = standInLast(a, b);
    if (apart) return apart;
    if (x === null || y === null) return Number(x === null) - Number(y === null) || a - b;
    return sign * (x - y) || a - b;
  });
}

/** Where a row stands in the table's order, the best highest; null for one without a mean. @param {number} row */
function placeOf(row) {
  const mean = summary.summed.texts[0];
  return mean && mean[row] === MISSING ? null : -row;
}

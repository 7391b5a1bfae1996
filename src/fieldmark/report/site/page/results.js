/* What is known before a task is opened? data/summary.js, with its numbers turned into records. */

/**
 * A row of the table: a model in one setup.
 * @typedef {{ name: string, model: string, stand_in: string, key: string, setup: string, family: string, title: string, params: number | null, images_per_s: number | null, licence: string,
 *   released: string, source: string }} Model
 * @typedef {{ name: string, title: string, about: string, dataset: string, dataset_title?: string,
 *   licence?: string, citation?: string, homepage?: string, samples: [string, string, string][],
 *   n_images: number, photos_note?: string }} Task
 * @typedef {{ name: string, task: number, heading: string, lines: string[], metric: string,
 *   is_up: boolean, is_fraction: boolean, level: number, signatures: string[], is_valued: boolean,
 *   data: string, is_counted: boolean, verdict: string, is_told: boolean | null, blind: number | null,
 *   chance: string[], warning: string, has_replies: boolean, number: number }} Column
 * @typedef {{ model: number, column: number, value: number | null, low: number | null,
 *   high: number | null, n: number, units: number | null, tier: string | null, isTied: boolean | null,
 *   unanswered: string, seconds: number | null, draws: number, fit: string[], leftOut: string }} Cell
 * @typedef {{ column: number, name: string, points: [string, number][] }} Curve
 */

/** in the table's order @type {Model[]} */ let models = [];
/** @type {Task[]} */ let tasks = [];
/** @type {Column[]} */ let columns = [];
/** @type {Cell[]} */ let cells = [];
/** @type {any} */ let summary = {};
/** @type {Map<number, Cell>} */ const cellAt = new Map();

/** @param {any} given */
function readSummary(given) {
  summary = given;
  models = given.rows;
  tasks = given.tasks;
  columns = given.columns.map(
    (/** @type {any} */ each, /** @type {number} */ number) => ({ ...each, number })
  );
  cells = given.cells.map(readCell);
  cellAt.clear();
  for (const cell of cells) cellAt.set(cell.model * columns.length + cell.column, cell);
}

/** @param {any[]} c @returns {Cell} */
function readCell(c) {
  const [model, column, value, low, high, n, units, tier, unanswered, seconds, draws, fit, leftOut] = c;
  const isTied = tier === null ? null : tier === "A";
  return { model, column, value, low, high, n, units, tier, isTied, unanswered, seconds, draws, fit, leftOut };
}

/** @param {number} model @param {number} column */
function cellOf(model, column) {
  return cellAt.get(model * columns.length + column);
}

/** Cells of a column, best first; stand-ins come last. @param {Column} column */
function ranked(column) {
  const sign = column.is_up ? -1 : 1;
  const worst = Infinity;
  return cells
    .filter((cell) => cell.column === column.number)
    .sort(
      (a, b) => standInLast(a.model, b.model) ||
        (a.value === null ? worst : sign * a.value) - (b.value === null ? worst : sign * b.value)
    );
}

/** @param {number} a @param {number} b */
function standInLast(a, b) {
  return Number(Boolean(models[a].stand_in)) - Number(Boolean(models[b].stand_in));
}

/** @param {Column} column */
function columnTitle(column) {
  return [column.heading, ...column.lines].join(", ");
}

/** @param {string | null} name */
function columnNamed(name) {
  return columns.find((each) => each.name === name);
}

/** The row of that name, or the first of a model's. @param {string | null} name */
function modelNamed(name) {
  const exact = models.findIndex((each) => each.name === name);
  const found = exact < 0 && name ? models.findIndex((each) => each.model === name) : exact;
  return found < 0 ? null : found;
}

/** What stands in a column of the table that sums up all tasks: a mean, a rank. @param {number} model */
function summedTexts(model) {
  const { headings, texts } = summary.summed;
  return headings.map((/** @type {string} */ heading, /** @type {number} */ at) => [heading, texts[at][model]]);
}

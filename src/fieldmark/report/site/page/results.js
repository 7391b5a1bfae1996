/* What is known before a task is opened? data/summary.js, with its numbers turned into records. */

/**
 * @typedef {{ name: string, family: string, title: string, params: number | null, images_per_s: number | null, licence: string,
 *   released: string, source: string }} Model
 * @typedef {{ name: string, title: string, about: string, dataset: string, dataset_title?: string,
 *   licence?: string, citation?: string, homepage?: string, samples: [string, string][],
 *   n_images: number, photos_note?: string }} Task
 * @typedef {{ name: string, task: number, heading: string, lines: string[], protocol: string,
 *   n_train: number | null, shots: number | null, seed: number, repeats: number, metric: string,
 *   is_up: boolean, is_fraction: boolean, level: number, signature: string, is_valued: boolean,
 *   data: string, is_counted: boolean, warning: string, number: number }} Column
 * @typedef {{ model: number, column: number, value: number | null, low: number | null,
 *   high: number | null, n: number, units: number | null, tier: string | null, isTied: boolean | null,
 *   unanswered: number, seconds: number | null, fit: string[], leftOut: string }} Cell
 */

/** @type {Model[]} */ let models = [];
/** @type {Task[]} */ let tasks = [];
/** @type {Column[]} */ let columns = [];
/** @type {Cell[]} */ let cells = [];
/** @type {any} */ let summary = {};
/** @type {Map<number, Cell>} */ const cellAt = new Map();

/** @param {any} given */
function readSummary(given) {
  summary = given;
  models = given.models;
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
  const [model, column, value, low, high, n, units, tier, unanswered, seconds, fit, leftOut] = c;
  const isTied = tier === null ? null : tier === "A";
  return { model, column, value, low, high, n, units, tier, isTied, unanswered, seconds, fit, leftOut };
}

/** @param {number} model @param {number} column */
function cellOf(model, column) {
  return cellAt.get(model * columns.length + column);
}

/** Cells of a column, best first. @param {Column} column */
function ranked(column) {
  const sign = column.is_up ? -1 : 1;
  const worst = Infinity;
  return cells
    .filter((cell) => cell.column === column.number)
    .sort(
      (a, b) => (a.value === null ? worst : sign * a.value) - (b.value === null ? worst : sign * b.value)
    );
}

/** @param {Column} column */
function columnTitle(column) {
  return [column.heading, ...column.lines].join(", ");
}

/** @param {string | null} name */
function columnNamed(name) {
  return columns.find((each) => each.name === name);
}

/** @param {string | null} name */
function modelNamed(name) {
  const found = models.findIndex((each) => each.name === name);
  return found < 0 ? null : found;
}

/** Why its intervals may be too narrow. @param {Column} column */
function weakText(column) {
  if (column.is_valued) return column.warning;
  return `${column.warning}, so intervals of ${column.metric} may be too narrow`;
}

/** What the images say, in one sentence. @param {Column} column */
function verdict(column) {
  const order = ranked(column).filter((cell) => cell.value !== null);
  if (!order.length) return "No model has a score here.";
  const name = (/** @type {Cell} */ cell) => models[cell.model].name;
  const best = `${name(order[0])} scores best (${scoreText(order[0].value, column)}).`;
  if (order.length === 1) return best;
  if (order[0].isTied === null) return `${best} Models were not compared item by item.`;
  const tied = order.slice(1).filter((cell) => cell.isTied).map(name);
  if (!tied.length) return `${best} These items tell it from every other model.`;
  const more = tied.length > 4 ? ` and ${tied.length - 4} more` : "";
  return `${best} These items cannot tell it from ${tied.slice(0, 4).join(", ")}${more}.`;
}

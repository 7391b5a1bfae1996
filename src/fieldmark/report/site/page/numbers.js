/* How is a score written, and drawn as a bar? */

const MISSING = "–";

/** @param {number | null} value @param {Column} column */
function scoreText(value, column) {
  if (value === null) return MISSING;
  if (column.is_fraction) return oneDecimal(100 * value);
  const rounded = Number(value.toPrecision(3));
  return Math.abs(rounded) < 1e6 ? rounded.toString() : rounded.toExponential();
}

/** As Python writes it: 6.25 becomes 6.2, the even one, and not 6.3. @param {number} value */
function oneDecimal(value) {
  const isTie = Number.isInteger(4 * value) && !Number.isInteger(2 * value);
  return (isTie ? (2 * Math.round(5 * value)) / 10 : value).toFixed(1);
}

/** Half the interval, or both its ends where that would leave 0–100, as `margin_text` of the table.
 * @param {number | null} value @param {number | null} low @param {number | null} high @param {Column} column */
function marginText(value, low, high, column) {
  if (value === null || low === null || high === null) return "";
  const half = (high - low) / 2;
  if (column.is_fraction && (half > value || value > 1 - half)) return `[${scoreText(low, column)}, ${scoreText(high, column)}]`;
  return `±${scoreText(half, column)}`;
}

/** With a sign, for differences. @param {number | null} value @param {Column} column */
function signedText(value, column) {
  if (value === null) return MISSING;
  const text = scoreText(Math.abs(value), column);
  return /[1-9]/.test(text) ? `${value < 0 ? "−" : "+"}${text}` : text;
}

/** @param {number} p */
function pText(p) {
  return p < 0.001 ? "< 0.001" : p.toFixed(3);
}

const COUNT = new Intl.NumberFormat("en-GB");

/** @param {number} n */
function countText(n) {
  return COUNT.format(n);
}

/** @param {number} n @param {string} noun */
function counted(n, noun) {
  return `${countText(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** @param {number | null} params */
function paramsText(params) {
  if (!params) return "";
  return params >= 1e9 ? `${(params / 1e9).toFixed(1)} B` : `${Math.max(1, Math.round(params / 1e6))} M`;
}

/** The sentence behind a number. @param {Cell} cell @param {Column} column */
function explain(cell, column) {
  const model = models[cell.model].name;
  const units = cell.units && cell.units < cell.n ? ` from ${countText(cell.units)} independent units` : "";
  const unit = column.is_fraction ? " %" : "";
  const score = cell.value === null ? "not defined" : scoreText(cell.value, column) + unit;
  const limits = cell.low === null ? "" :
    ` (${100 * column.level} % interval ${scoreText(cell.low, column)} to ${scoreText(cell.high, column)})`;
  const lost = cell.unanswered ? ` No answer counts as a wrong one: ${cell.unanswered}.` : "";
  const tie = cell.tier === null ? "" : cell.isTied ? " Tier A: could be the best model for this task." : ` Tier ${cell.tier}.`;
  const draws = cell.draws > 1 ? ` Mean of ${cell.draws} trainings or rounds of answers.` : cell.draws ? "" :
    " One training: the interval leaves out differences between training samples.";
  return `${model} on ${columnTitle(column)}: ${column.metric} ${score} in ${countText(cell.n)} items${units}${limits}.${tie}${lost}${draws}`;
}

/**
 * Where dot and interval lie on a scale, as the style sheet wants it; without an interval, the dot.
 * @param {number} value @param {number | null} low @param {number | null} high @param {[number, number]} scale
 */
function barStyle(value, low, high, scale) {
  const share = (/** @type {number} */ x) =>
    (5 + 90 * Math.min(1, Math.max(0, (x - scale[0]) / (scale[1] - scale[0] || 1)))).toFixed(1);
  return `--v:${share(value)}%;--l:${share(low ?? value)}%;--r:${share(high ?? value)}%`;
}

/**
 * @param {number | null} value @param {number | null} low @param {number | null} high
 * @param {[number, number]} scale
 */
function bar(value, low, high, scale) {
  return value === null ? null : h(
    "span", { class: "bar", "aria-hidden": "true", style: barStyle(value, low, high, scale) }
  );
}

/** The range all intervals of a column fit in. @param {Cell[]} some @returns {[number, number]} */
function scaleOf(some) {
  const known = some.filter((cell) => cell.value !== null);
  const lows = known.map((cell) => cell.low ?? cell.value ?? 0);
  const highs = known.map((cell) => cell.high ?? cell.value ?? 0);
  return [Math.min(...lows), Math.max(...highs)];
}

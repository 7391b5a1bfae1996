/* Do two models differ on the same items? The same reasoning as fieldmark.stats: both models share
   the resamples, units are resampled within parts, the interval is moved onto the estimate. */

const MOST_STEPS = 2e7;
const METRICS = ["accuracy", "macro_accuracy", "macro_f1"];

/**
 * @typedef {{ value: number, low: number, high: number, n: number, onlyFirst: number,
 *   onlySecond: number }} Difference
 * @typedef {{ target: Int32Array, first: Int32Array, second: Int32Array, unit: Int32Array,
 *   part: Int32Array, n: number, nClasses: number, nUnits: number, nParts: number, isMean: boolean }} Differences
 */

/** Numbers in [0, 1) from a seed (mulberry32). @param {number} seed */
function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * First model minus second; null where the metric is not known here or nothing is shared.
 * @param {Packed} data @param {number} first @param {number} second @param {Column} column
 * @returns {Difference | null}
 */
function pairedDifference(data, first, second, column) {
  const metric = data.judged === "right" ? "accuracy" : data.judged ? "" : column.metric;
  const pairs = readPairs(data, first, second);
  if (!pairs.n || !METRICS.includes(metric)) return null;
  const score = scorer(pairs, metric);
  const value = score(null);
  let onlyFirst = 0, onlySecond = 0;
  for (let i = 0; i < pairs.n; i++) {
    const lead = Number(pairs.first[i] === pairs.target[i]) - Number(pairs.second[i] === pairs.target[i]);
    if (lead > 0) onlyFirst++;
    if (lead < 0) onlySecond++;
  }
  const isSimple = metric === "accuracy" && !pairs.isMean && pairs.nUnits === pairs.n;
  const [low, high] = isSimple
    ? splitLimits(onlyFirst, onlySecond, pairs.n, column.level)
    : resampledLimits(pairs, score, value, column.level);
  return {
    value, low: Math.min(low, value), high: Math.max(high, value), n: pairs.n, onlyFirst, onlySecond
  };
}

/** The answers of a model; of texts the target's number where right, else one beyond all.
 * @param {Packed} data @param {number} model */
function judged(data, model) {
  if (!data.judged) return data.answers[model];
  const wrong = data.labels.length + 1;
  return Array.from(data.answers[model], (_, i) => {
    if (sureOf(data, model, i) === null) return 0;
    return isRight(data, model, i) ? data.target[i] : wrong;
  });
}

/** Items both models answered; classes and units are numbered within their part.
 * @param {Packed} data @param {number} first @param {number} second @returns {Differences} */
function readPairs(data, first, second) {
  const isMean = data.rule === "mean";
  const only = isMean || data.rule === "pooled" ? -1 : data.parts.indexOf(data.rule);
  const [a, b] = [judged(data, first), judged(data, second)];
  const kept = [];
  for (let i = 0; i < data.n; i++) {
    if (a[i] && b[i] && data.target[i] && (only < 0 || data.part[i] === only)) kept.push(i);
  }
  const wide = data.labels.length + 2;
  const number = (/** @type {Map<number, number>} */ seen, /** @type {number} */ key) => {
    if (!seen.has(key)) seen.set(key, seen.size);
    return /** @type {number} */ (seen.get(key));
  };
  const classes = new Map(), units = new Map(), parts = new Map();
  const column = (/** @type {(i: number) => number} */ read) => Int32Array.from(kept, read);
  const manyUnits = 1 + data.unit.reduce((most, each) => Math.max(most, each), 0);
  const target = column((i) => number(classes, data.part[i] * wide + data.target[i]));
  return {
    target,
    first: column((i) => number(classes, data.part[i] * wide + a[i])),
    second: column((i) => number(classes, data.part[i] * wide + b[i])),
    unit: column((i) => number(units, (isMean ? data.part[i] * manyUnits : 0) + data.unit[i])),
    part: column((i) => number(parts, isMean ? data.part[i] : 0)),
    n: kept.length, nClasses: classes.size, nUnits: units.size, nParts: parts.size, isMean,
  };
}

/** The difference as a function of how often each unit occurs (null: once).
 * @param {Differences} pairs @param {string} metric @returns {(weight: Uint16Array | null) => number} */
function scorer(pairs, metric) {
  const { target, first, second, unit, part, n, nClasses, nParts } = pairs;
  const groups = metric === "accuracy" ? nParts : nClasses;
  const size = new Float64Array(groups), lead = new Float64Array(groups);
  const hits = [new Float64Array(groups), new Float64Array(groups)];
  const said = [new Float64Array(groups), new Float64Array(groups)];
  const partOf = new Int32Array(groups);
  for (let i = 0; i < n; i++) partOf[metric === "accuracy" ? part[i] : target[i]] = part[i];
  const isF1 = metric === "macro_f1";
  return (weight) => {
    for (const each of [size, lead, ...hits, ...said]) each.fill(0);
    for (let i = 0; i < n; i++) {
      const w = weight ? weight[unit[i]] : 1;
      if (!w) continue;
      const group = metric === "accuracy" ? part[i] : target[i];
      size[group] += w;
      if (first[i] === target[i]) hits[0][group] += w;
      if (second[i] === target[i]) hits[1][group] += w;
      if (isF1) {
        said[0][first[i]] += w;
        said[1][second[i]] += w;
      }
    }
    for (let g = 0; g < groups; g++) {
      if (!size[g]) continue;
      lead[g] = isF1
        ? (2 * hits[0][g]) / (size[g] + said[0][g]) - (2 * hits[1][g]) / (size[g] + said[1][g])
        : (hits[0][g] - hits[1][g]) / size[g];
    }
    return meanOfParts(size, lead, partOf, nParts);
  };
}

/**
 * @param {Float64Array} size @param {Float64Array} lead @param {Int32Array} partOf
 * @param {number} nParts
 */
function meanOfParts(size, lead, partOf, nParts) {
  const total = new Float64Array(nParts), n = new Float64Array(nParts);
  for (let g = 0; g < size.length; g++) {
    if (!size[g]) continue;
    total[partOf[g]] += lead[g];
    n[partOf[g]] += 1;
  }
  let sum = 0;
  for (let p = 0; p < nParts; p++) sum += total[p] / (n[p] || 1);
  return sum / nParts;
}

/**
 * @param {Differences} pairs @param {(weight: Uint16Array) => number} score @param {number} value
 * @param {number} level
 */
function resampledLimits(pairs, score, value, level) {
  const draws = Math.max(200, Math.min(2000, Math.floor(MOST_STEPS / pairs.n)));
  const byPart = Array.from({ length: pairs.nParts }, () => /** @type {number[]} */ ([]));
  const seen = new Uint8Array(pairs.nUnits);
  for (let i = 0; i < pairs.n; i++) {
    if (!seen[pairs.unit[i]]) byPart[pairs.part[i]].push(pairs.unit[i]);
    seen[pairs.unit[i]] = 1;
  }
  const random = seeded(1), weight = new Uint16Array(pairs.nUnits), found = new Float64Array(draws);
  for (let d = 0; d < draws; d++) {
    weight.fill(0);
    for (const units of byPart) {
      for (let k = 0; k < units.length; k++) weight[units[Math.floor(random() * units.length)]] += 1;
    }
    found[d] = score(weight);
  }
  const mean = found.reduce((sum, each) => sum + each, 0) / draws;
  found.sort();
  if (found[draws - 1] - found[0] <= 1e-12) return unseenLimits(value, pairs.nUnits, level);
  const tail = tailShare(pairs.nUnits, pairs.nUnits - pairs.nParts, (1 - level) / 2);
  const at = (/** @type {number} */ share) => found[Math.round(share * (draws - 1))] + value - mean;
  return [Math.max(-1, at(tail)), Math.min(1, at(1 - tail))];
}

/** When all resamples agree: as far away as what never came in that many units may still be.
 * @param {number} value @param {number} n @param {number} level */
function unseenLimits(value, n, level) {
  const z = normalQuantile((1 - level) / 2);
  const reach = z ** 2 / (n + z ** 2);
  return [Math.max(-1, value - reach), Math.min(1, value + reach)];
}

/** Bonett and Price 2012, for a share without clusters.
 * @param {number} a @param {number} b @param {number} n @param {number} level */
function splitLimits(a, b, n, level) {
  const z = -normalQuantile((1 - level) / 2);
  const [first, second] = [(a + 1) / (n + 2), (b + 1) / (n + 2)];
  const half = z * Math.sqrt((first + second - (first - second) ** 2) / (n + 2));
  return [Math.max(-1, first - second - half), Math.min(1, first - second + half)];
}

/** Which share of resamples lies beyond a limit: more is cut off a mean of many units than of few.
 * @param {number} n @param {number} freedom @param {number} share */
function tailShare(n, freedom, share) {
  if (freedom < 1) return 0;
  const z = normalQuantile(share);
  const t = z + (z ** 3 + z) / (4 * freedom) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * freedom ** 2);
  return normalShare(t * Math.sqrt(n / freedom));
}

/** @param {number} z */
function normalShare(z) {
  const x = Math.abs(z) / Math.SQRT2, k = 1 / (1 + 0.3275911 * x);
  const sum = (
    (((1.061405429 * k - 1.453152027) * k + 1.421413741) * k - 0.284496736) * k + 0.254829592
  ) * k;
  const above = (sum * Math.exp(-x * x)) / 2;
  return z < 0 ? above : 1 - above;
}

/** @param {number} share */
function normalQuantile(share) {
  let low = -9, high = 9;
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (normalShare(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/* How do predictions arrive? As a script that holds gzipped columns of whole numbers, see
   predictions.py; loaded when a task is opened. */

/**
 * @typedef {{ n: number, ids: string[], labels: string[], parts: string[], models: number[],
 *   rule: string, judged: "" | "right" | "graded" | "texts", ranges: ([number, number] | null)[], scores: any[][],
 *   id: Numbers, part: Numbers, repeat: Numbers, target: Numbers, unit: Numbers,
 *   answers: Numbers[], sure: Numbers[], thumb: Uint8Array | null }} Packed
 * @typedef {Uint8Array | Uint16Array | Uint32Array} Numbers
 */

const THUMB_BYTES = 6;
const NO_SCORE = 255;
/** @type {Map<string, Promise<any>>} */ const loading = new Map();
/** @type {Map<string, any>} */ const received = new Map();

/** Loads a script of the site once. @param {string} src */
function loadScript(src) {
  if (!loading.has(src)) {
    loading.set(src, new Promise((resolve, reject) => {
      const failed = () => reject(new Error(`${src} is missing from this folder`));
      document.head.append(h("script", { src, onload: resolve, onerror: failed }));
    }));
  }
  return /** @type {Promise<any>} */ (loading.get(src));
}

/** The predictions of a column. @param {Column} column @returns {Promise<Packed>} */
async function loadColumn(column) {
  const key = `packed ${column.name}`;
  if (!loading.has(key)) {
    loading.set(key, loadScript(`data/${column.name}.js`).then(() => unpack(received.get(column.name))));
  }
  return loading.get(key);
}

/** Draws what needs a column's predictions once they are there; the field in use keeps the focus.
 * @param {HTMLElement} body @param {Column} column @param {(column: Column, data: Packed) => any[]} draw */
async function fill(body, column, draw) {
  const inUse = focusedLabel();
  try {
    const parts = draw(column, await loadColumn(column));
    body.replaceChildren();
    append(body, parts);
  } catch (error) {
    body.replaceChildren(h("p", { class: "empty" }, /** @type {Error} */ (error).message));
  }
  focusLabel(inUse);
}

/** What chat models were asked and wrote: row → [prompt, reply, why it was not read] of each item.
 * @param {Column} column @returns {Promise<Record<string, ([string, string, string] | null)[]>>} */
async function loadReplies(column) {
  const name = `${column.name}-replies`, key = `replies ${name}`;
  if (!loading.has(key)) {
    loading.set(key, loadScript(`data/${name}.js`).then(async () => JSON.parse(new TextDecoder().decode(await unzipped(received.get(name))))));
  }
  return loading.get(key);
}

/** @param {string} text @returns {Promise<ArrayBuffer>} */
async function unzipped(text) {
  const zipped = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** @param {string} text @returns {Promise<Packed>} */
async function unpack(text) {
  const bytes = await unzipped(text);
  const length = new DataView(bytes).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  const array = (/** @type {string} */ name) => view(bytes, 4 + length, header.layout[name]);
  const all = (/** @type {string} */ name) => header.models.map(
    (/** @type {any} */ _, /** @type {number} */ i) => array(`${name} ${i}`)
  );
  return {
    ...header,
    models: header.models.map(modelNamed),
    id: array("id"), part: array("part"), repeat: array("repeat"), target: array("target"),
    unit: array("unit"),
    answers: all("answer"), sure: all("sure"),
    thumb: header.layout.thumb ? array("thumb") : null,
  };
}

/**
 * @param {ArrayBuffer} bytes @param {number} start @param {[number, number, number]} place
 * @returns {any}
 */
function view(bytes, start, [at, n, width]) {
  const kind = width === 1 ? Uint8Array : width === 2 ? Uint16Array : Uint32Array;
  return new kind(bytes, start + at, n);
}

/** The address of an item's thumbnail, or "". @param {Packed} data @param {number} item */
function thumbOf(data, item) {
  if (!data.thumb) return "";
  const at = data.id[item] * THUMB_BYTES;
  let name = "";
  for (let i = at; i < at + THUMB_BYTES; i++) name += data.thumb[i].toString(16).padStart(2, "0");
  return /^0+$/.test(name) ? "" : thumbAddress(name);
}

/** @param {string} name */
function thumbAddress(name) {
  return `thumbs/${name.slice(0, 2)}/${name}.webp`;
}

/** Is it known which answers are right? Not of texts that are worth more or less.
 * @param {Packed} data */
function isJudged(data) {
  return !data.judged || data.judged === "right";
}

/** The text of a document's answer says nothing of it: only what it was worth does.
 * @param {Packed} data @param {number} model @param {number} item */
function isRight(data, model, item) {
  if (data.judged) return data.judged === "right" && sureOf(data, model, item) === 1;
  return data.answers[model][item] === data.target[item];
}

/** A label's name; 0 is no answer. @param {Packed} data @param {number} code */
function labelOf(data, code) {
  return code ? data.labels[code - 1] : "no answer";
}

/** How sure a model was, or null. @param {Packed} data @param {number} model @param {number} item */
function sureOf(data, model, item) {
  const range = data.ranges[model];
  const step = data.sure[model][item];
  if (!range || step === NO_SCORE) return null;
  return range[0] + ((range[1] - range[0]) * step) / (NO_SCORE - 1);
}

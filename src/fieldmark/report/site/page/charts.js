/* Charts: the specifications of `fieldmark plot`, drawn by Vega, which is loaded only here. */

/** @param {Place} place */
function chartsPage(place) {
  const names = [...(summary.charts || [])].sort((a, b) => (chartPlace(a) - chartPlace(b)) || a.localeCompare(b));
  if (!names.length) return [
    h("h1", {}, "Charts"), h("p", { class: "empty" }, "This site was made without charts.")
  ];
  const chosen = names.includes(place.name) ? place.name : names[0];
  const frame = h("div", { role: "img" }, "Loading …");
  drawChart(chosen, frame);
  return [
    h("h1", {}, "Charts"),
    h("nav", { class: "tabs", "aria-label": "Charts" }, names.map((/** @type {string} */ name) =>
      h("a", { href: address("charts", name), "aria-current": name === chosen ? "page" : null }, CHART_NAMES[name] || name.replaceAll(/[-_]/g, " ")))),
    chartPanel(frame),
  ];
}

/** the most useful first; others follow @type {Record<string, string>} */
const CHART_NAMES = {
  forest: "scores", confusion: "confusions", curve: "learning curves", difference: "differences",
  ranks: "ranks", pareto: "score and size", "pareto-by-speed": "score and speed", sweep: "settings",
};

/** @param {string} name */
function chartPlace(name) {
  const at = Object.keys(CHART_NAMES).indexOf(name);
  return at < 0 ? Infinity : at;
}

/** @param {HTMLElement} frame */
function chartPanel(frame) {
  return h(
    "div", { class: "panel" },
    h("div", { class: "chart", role: "region", tabindex: 0, "aria-label": "Chart" }, frame)
  );
}

/** Title and legend as text of the page, which a phone can wrap. @param {string} name @param {HTMLElement} frame */
async function drawChart(name, frame) {
  try {
    await Promise.all([loadScript("vega.js"), loadScript("data/charts.js")]);
    const { about, spec } = received.get("charts")[name];
    const config = isDark() ? darkened(spec.config || {}) : { ...spec.config, background: "transparent" };
    frame.replaceChildren();
    frame.setAttribute("aria-label", about);
    const { title, ...drawn } = isDark() ? recoloured(spec) : spec;
    if (drawn.concat && innerWidth < NARROW) drawn.columns = 1;
    frame.parentElement?.before(h("h2", {}, title.text.join(" ")));
    frame.parentElement?.after(h("p", { class: "facts" }, title.subtitle.join(" ")));
    const draw = (/** @type {any} */ one) => /** @type {any} */ (window).vegaEmbed(
      frame, { ...one, config }, { actions: false, renderer: "svg" }
    );
    await draw(drawn);
    const excess = frame.querySelector("svg").viewBox.baseVal.width - frame.clientWidth;
    if (excess > 0) await draw(narrowed(drawn, excess));
    enlarge(frame.querySelector("svg"));
  } catch (error) {
    frame.textContent = /** @type {Error} */ (error).message;
  }
}

/** pixels below which panels stand one under the other */
const NARROW = 800;
const NARROWEST = 110, NARROW_STEP = 22;

/** Panels lose the width that a phone lacks, so that their letters keep their size.
 * @param {any} spec @param {number} excess */
function narrowed(spec, excess) {
  const narrow = (/** @type {any} */ panel) => ({
    ...panel,
    width: panel.width.step ? { step: NARROW_STEP } : Math.max(NARROWEST, panel.width - excess),
  });
  return spec.concat ? { ...spec, concat: spec.concat.map(narrow) } : narrow(spec);
}

const ENLARGED = 1.3;
/** colours that marks name themselves, for paper → for a dark screen */
const DARK_MARKS = new Map([
  ["#0072B2", "#6DB9EE"], ["#767676", "#A5B0AA"], ["#E3EEF6", "#1D3242"], ["#F5F5F5", "#232B27"],
  ["#222222", "#E9EEEB"], ["#555555", "#CFD6D2"], ["#9A9A9A", "#66716B"], ["#D9D9D9", "#4A544F"],
  ["#08519C", "#1F6FB5"], ["#6BAED6", "#2A5470"], ["#DCE9F4", "#26384A"], ["#FFFFFF", "#1B211E"],
  ["#EFEFEF", "#39413D"], ["#F4F4F4", "#131816"],
]);
const DARK_PANEL = "#1B211E";

/** @param {any} spec */
function recoloured(spec) {
  const isHalo = (/** @type {any} */ value) => value?.type === "text" && value.stroke === "white";
  const text = JSON.stringify(spec, (_, value) => (isHalo(value) ?
    { ...value, stroke: DARK_PANEL, color: DARK_PANEL } : DARK_MARKS.get(value) ?? value));
  return JSON.parse(text);
}

const DARK_CHART = {
  axis: {
    labelColor: "#cfd6d2", titleColor: "#cfd6d2", gridColor: "#39413d", domainColor: "#66716b",
    tickColor: "#66716b"
  },
  legend: { labelColor: "#cfd6d2", titleColor: "#cfd6d2" },
  title: { color: "#e9eeeb", subtitleColor: "#cfd6d2" },
  header: { labelColor: "#cfd6d2", titleColor: "#cfd6d2" },
  text: { color: "#cfd6d2" },
};

/** Plots are made for a journal's column; a screen has more room. @param {SVGSVGElement | null} svg */
function enlarge(svg) {
  if (!svg) return;
  const width = svg.viewBox.baseVal.width * ENLARGED;
  svg.setAttribute("width", `${width}`);
  svg.setAttribute("height", `${svg.viewBox.baseVal.height * ENLARGED}`);
}

/** The theme of a chart with light text. @param {any} config */
function darkened(config) {
  const merged = { ...config, background: "transparent" };
  for (const [name, colours] of Object.entries(DARK_CHART)) merged[name] = { ...config[name], ...colours };
  return merged;
}

/** How scores grow with the number of training images, as numbers. */
function curvesPage() {
  const curves = /** @type {Curve[]} */ (summary.curves);
  const intro = [h("h1", {}, "Learning curves")];
  if (!curves.length) return [
    ...intro,
    h(
      "p", { class: "empty" },
      "No model was run with several numbers of training photos."
    )
  ];
  const frame = h("div", { role: "img" }, "Loading …");
  const hasChart = (summary.charts || []).includes("curve");
  if (hasChart) drawChart("curve", frame);
  const grown = columns.filter((column) => curves.some((each) => each.column === column.number));
  return [...intro, hasChart && chartPanel(frame), ...grown.flatMap((column) =>
    curveTable(column, curves.filter((each) => each.column === column.number)))];
}

/** @param {Column} column @param {Curve[]} curves */
function curveTable(column, curves) {
  const sizes = [...new Set(curves.flatMap((each) => each.points.map(([size]) => size)))].sort((x, y) => order(x) - order(y));
  const cellFor = (/** @type {Curve} */ curve, /** @type {string} */ size) => {
    const point = curve.points.find(([each]) => each === size);
    return point && cellOf(point[1], column.number);
  };
  const known = curves.flatMap((curve) => curve.points.map(([, row]) => cellOf(row, column.number))).filter((cell) => cell !== undefined);
  const scale = scaleOf(/** @type {Cell[]} */ (known));
  const heads = h("tr", {}, h("th", { scope: "col", class: "first" }, "model"),
    sizes.map((size) => h("th", { scope: "col", class: "number" }, size)));
  const lines = curves.map((curve) => h("tr", {}, h("th", { scope: "row", class: "first", title: curve.name }, breakable(curve.name)),
    sizes.map((size) => boardCell(cellFor(curve, size), column, scale, false))));
  return [h("h2", {}, `${columnTitle(column)} · ${column.metric}`),
    h("p", { class: "facts" }, "Columns: the number of training photos (in each part of the task). All scores are on one scale."),
    h("p", { class: "facts" }, columnFacts(column)),
    scrolling("Learning curve", boardFrame(sizes.length, null, heads, h("tbody", {}, lines)))];
}

/** All comes last. @param {string} size */
function order(size) {
  const n = parseInt(size.replaceAll(",", ""), 10);
  return Number.isNaN(n) ? Infinity : n;
}

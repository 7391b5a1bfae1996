/* What does a reader choose with? Labelled fields whose values stand in the address. */

const MOST_LISTED = 400;

/**
 * @param {string} label @param {[string, string][]} choices value and text
 * @param {string} chosen @param {(value: string) => void} change
 */
function select(label, choices, chosen, change) {
  const options = choices.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  const field = h(
    "select", { onchange: (/** @type {any} */ event) => change(event.target.value) }, options
  );
  return h("label", { class: "field" }, h("span", {}, label), field);
}

/** @param {string} label @param {string} value @param {(value: string) => void} change */
function search(label, value, change) {
  const oninput = (/** @type {any} */ event) => change(event.target.value);
  return h(
    "label", { class: "field grow" }, h("span", {}, label), h("input", { type: "search", value, oninput })
  );
}

/** @param {string} label @param {boolean} checked @param {(checked: boolean) => void} change */
function tick(label, checked, change) {
  const onchange = (/** @type {any} */ event) => change(event.target.checked);
  return h(
    "label", { class: "tick" }, h("input", { type: "checkbox", checked, onchange }), h("span", {}, label)
  );
}

/** A field for one of the models. @param {string} label @param {number[]} which @param {number | null} chosen
 * @param {(name: string) => void} change @param {string} [none] */
function modelField(label, which, chosen, change, none) {
  const choices = which.map(
    (each) => /** @type {[string, string]} */ ([models[each].name, models[each].name])
  );
  if (none) choices.unshift(["", none]);
  return select(label, choices, chosen === null ? "" : models[chosen].name, change);
}

/** A field for one of the columns. @param {Column} chosen @param {(name: string) => void} change */
function columnField(chosen, change) {
  const choices = columns.map((each) => /** @type {[string, string]} */ ([each.name, columnTitle(each)]));
  return select("Task", choices, chosen.name, change);
}

/** A field for one of the labels: a list, or words to type where the list would be endless.
 * @param {string} label @param {string[]} labels @param {string} chosen @param {(value: string) => void} change */
function labelField(label, labels, chosen, change) {
  const some = labels.map((each) => /** @type {[string, string]} */ ([each, each]));
  if (labels.length <= MOST_LISTED) return select(label, [["", "any"], ...some], chosen, change);
  const list = `labels-${label}`;
  const onchange = (/** @type {any} */ event) => change(event.target.value);
  const field = h("input", { type: "search", list, value: chosen, placeholder: "any", onchange });
  return h(
    "label", { class: "field" }, h("span", {}, label), field,
    h("datalist", { id: list }, labels.map((value) => h("option", { value })))
  );
}

/** The label of the field that has the focus, to find it again when the view is drawn anew. */
function focusedLabel() {
  return document.activeElement?.closest("label")?.querySelector("span")?.textContent || "";
}

/** @param {string} text */
function focusLabel(text) {
  for (const label of byId("main").querySelectorAll("label")) {
    if (
      text && label.querySelector("span")?.textContent === text
    ) label.querySelector("select, input")?.focus();
  }
}

/**
 * Values in the order of the alphabet, "any" first.
 * @param {string[]} values @returns {[string, string][]}
 */
function anyOf(values) {
  return [
    ["", "any"],
    ...[...new Set(values)].sort().map((each) => /** @type {[string, string]} */ ([each, each]))
  ];
}

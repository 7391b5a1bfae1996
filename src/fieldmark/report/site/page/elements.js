/* How does the page make elements? Text is always set as text: nothing from the data is ever HTML. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element with attributes and children; `onclick` and the like are listeners.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") setVars(element, value);
    else if (name === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** A sentence whose commands stand in backticks. @param {string} text @returns {Child[]} */
function marked(text) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

/** @param {HTMLElement} element @param {Record<string, string | number>} vars */
function setVars(element, vars) {
  for (const [name, value] of Object.entries(vars)) element.style.setProperty(`--${name}`, `${value}`);
}

/** @param {Element} element @param {any[]} children */
function append(element, children) {
  for (const child of children.flat()) {
    if (
      child !== null && child !== undefined && child !== false
    ) element.append(/** @type {any} */ (child));
  }
}

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** An address out of the data as a link, if it is one a browser should follow.
 * @param {string | undefined} address @param {string} [text] */
function outside(address, text) {
  if (!address || !/^https?:\/\//.test(address)) return address || "";
  return h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, text || address);
}

/** What is left whole when a name breaks. @param {string} text */
function pieces(text) {
  return text.split(/(?<=[-_@/.:,])|(?<=\s)/);
}

/** A long name that may break after its signs. @param {string} text @returns {Child[]} */
function breakable(text) {
  return pieces(text).flatMap((piece) => [piece, h("wbr")]);
}

/** Tells a screen reader what changed. @param {string} text */
function say(text) {
  byId("said").textContent = text;
}

/** A part of the page that scrolls by itself, reachable by keyboard.
 * @param {string} label @param {...Child} children */
function scrolling(label, ...children) {
  return h("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": label }, ...children);
}

/* Where is the reader? Everything that can be chosen stands in the address, so a view can be mailed. */

/** @typedef {{ view: string, name: string, options: URLSearchParams }} Place */

/** @returns {Place} */
function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  return { view, name: decoded(rest.join("/")), options: new URLSearchParams(query || "") };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The address of a view; empty options are left out.
 * @param {string} view @param {string} [name] @param {Record<string, string | number | null | undefined>} [options]
 */
function address(view, name = "", options = {}) {
  const chosen = Object.entries(options).filter(
    ([, value]) => value !== null && value !== undefined && value !== ""
  );
  const query = new URLSearchParams(chosen.map(([key, value]) => [key, String(value)])).toString();
  const path = name ? `${view}/${encodeURIComponent(name)}` : view;
  return `#/${path}${query ? `?${query}` : ""}`;
}

/**
 * Changes options of this view without a step in the history.
 * @param {Record<string, string | number | null>} changes
 */
function remember(changes) {
  const place = here();
  const options = { ...Object.fromEntries(place.options), ...changes };
  history.replaceState(null, "", address(place.view, place.name, options));
}

/**
 * Goes to another state of this view and shows it.
 * @param {Record<string, string | number | null>} changes
 */
function go(changes) {
  const place = here();
  location.hash = address(place.view, place.name, { ...Object.fromEntries(place.options), ...changes });
}

/* Which view does the address ask for? Begins when the summary has arrived. */

/** @type {Record<string, (place: Place) => any[]>} */
const VIEWS = {
  "": leaderboard, tasks: taskList, task: taskPage, model: modelPage, compare: comparePage,
  predictions: predictionsPage, confusions: confusionsPage, curves: curvesPage, charts: chartsPage,
  methods: methodsPage,
};
/** @type {[string, string, string[]][]} address, text, views it stands for */
const MENU = [
  ["", "Leaderboard", ["", "model"]], ["tasks", "Tasks", ["tasks", "task"]],
  ["compare", "Compare", ["compare"]],
  ["predictions", "Predictions", ["predictions"]], ["confusions", "Confusions", ["confusions"]],
  ["curves", "Curves", ["curves"]], ["charts", "Charts", ["charts"]], ["methods", "Methods", ["methods"]],
];
let shown = "";

function showPlace() {
  const place = here();
  const view = VIEWS[place.view] || (() => notFound("view", place.view));
  const isNew = `${place.view}/${place.name}` !== shown;
  const inUse = focusedLabel(), parts = view(place);
  byId("main").replaceChildren();
  append(byId("main"), parts);
  if (!isNew) focusLabel(inUse);
  byId("views").replaceChildren(...menu(place.view));
  const title = byId("main").querySelector("h1")?.textContent || "results";
  document.title = `${title} · fieldmark`;
  if (isNew && shown) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  shown = `${place.view}/${place.name}`;
}

/** @param {string} view */
function menu(view) {
  const wanted = MENU.filter(
    ([name]) => (name !== "charts" || summary.charts?.length) && (name !== "curves" || summary.curves.length)
  );
  return wanted.map(
    ([name, text, stands]) => h(
      "a", { href: address(name), "aria-current": stands.includes(view) ? "page" : null }, text
    )
  );
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function setTheme(/** @type {string | null} */ theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
}

function storedTheme(/** @type {string} */ theme = "") {
  try {
    if (theme) localStorage.setItem("fieldmark-theme", theme);
    return localStorage.getItem("fieldmark-theme");
  } catch {
    return null; // some browsers give pages from a disk no storage
  }
}

/** Closes what was unfolded over the page, unless the reader is in it. @param {Node | null} inside */
function closeChoosers(inside) {
  for (const each of document.querySelectorAll("details.chooser[open]")) {
    if (!inside || !each.contains(inside)) each.removeAttribute("open");
  }
}

function begin() {
  const theme = storedTheme();
  setTheme(theme === "dark" || theme === "light" ? theme : null);
  byId("theme").addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    storedTheme(next);
    setTheme(next);
    if (here().view === "charts") showPlace();
  });
  byId("about").textContent = `Made by fieldmark ${summary.app}. This page works without internet and sends nothing anywhere.`;
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault(); // the address holds the view
    byId("main").focus();
  });
  document.addEventListener("pointerdown", (event) => closeChoosers(/** @type {Node} */ (event.target)));
  document.addEventListener("keydown", (event) => event.key === "Escape" && closeChoosers(null));
  window.addEventListener("hashchange", showPlace);
  showPlace();
}

/** What the data scripts call. @param {string} name @param {any} value */
function receive(name, value) {
  received.set(name, value);
  if (name !== "summary") return;
  const isFirst = !models.length;
  for (const key of loading.keys()) if (key !== "vega.js") loading.delete(key); // models may be numbered anew
  readSummary(value);
  isFirst ? begin() : showPlace();
}

/** @type {any} */ (window).fieldmark = { receive };

/* What do the numbers rest on? In plain words. */

/** @type {[string, string][]} */
const METHODS = [
  ["What a score is", "A model answers a question about every test photo, and the metric named in the heading sums up the answers. Photos that got no answer (a failed request, an answer that could not be read) are left out, never counted as wrong, and marked †."],
  ["What the interval says", "If the whole test were repeated with other photos of the same kind, the interval would hold the true score about 19 times out of 20. What is drawn anew are independent units (a burst, a camera, an individual), because ten frames of one burst say little more than one. A share without such groups has Wilson's interval; everything else a bootstrap over units that is moved onto the estimate and widened when units are few."],
  ["What the shading says", "Tier A holds the best model of a column and all models that these photos cannot tell from it, tier B the best of the rest and those not distinguishable from that one, and so on. Models are compared on the same photos, with a correction for having looked at many pairs. Inside a tier there is no order."],
  ["What a comparison says", "First minus second on the photos both answered. Both models share the resamples, which is what makes small differences visible. The browser draws them with a fixed seed: the same page always shows the same limits. Each task is judged on its own, without a correction for many tasks."],
  ["What a mean says", "The plain mean over the tasks that are ticked; models that lack one of them have none. Where metrics differ in unit or direction, it is a mean of ranks. Its ± takes the tasks as independent, which is too narrow for tasks that share photos."],
  ["Tasks with parts", "A task such as NeWT has many parts, each with its own training photos. Its score is the mean over parts unless the heading says otherwise, and units are drawn anew within each part."],
  ["How to get the same numbers", "The line under each table of a task is its signature: task and version, a hash of items and labels, protocol, settings, seed. Equal signatures are the same experiment."],
];

function methodsPage() {
  return [h("h1", {}, "Methods"), ...METHODS.flatMap(([title, text]) => [h("h2", {}, title), h("p", { class: "lead" }, text)])];
}

/* What do the numbers rest on? In plain words; docs/methods.md has the formulas. */

/** @type {[string, string][]} */
const METHODS = [
  ["What a score is", "A model answers a question about every test photo, and the metric named in the heading sums up the answers. Photos without an answer (refused, failed, cut off or unreadable) count as wrong and are marked †, followed by the score among those answered. A row is one model with one set of settings. Runs that differ only in their seed become one score, their mean."],
  ["What an interval says", "With other photos of the same kind, the score would have been slightly different. The 95 % interval contains the score over all such photos 19 times in 20. Photos of one burst, camera or animal count as one independent unit. Where a model was trained several times, the interval includes the differences between training samples; with one training it does not. Where no interval can be trusted, none is shown and a note says why."],
  ["What the shading says", "Tier A: could be the best model for this task. Tier B: clearly worse than A; may be the best of the rest; and so on. All models are tested together, with 95 % confidence. Two models of one letter may still differ: Compare tests them. Models that chose among another number of options have a column, letters and a verdict of their own. Models are compared at the largest training size that most of them share; scores at other sizes have no letter."],
  ["What a comparison says", "The first model minus the second, on the photos that both answered. Overall is the mean over the tasks that count, with equal weights. Photos that several tasks ask about are one set. The interval contains 0 exactly where p is above 0.05. For each task, p is corrected for the number of tasks (Holm). These are the numbers of fieldmark compare."],
  ["What a mean says", "The mean over all tasks that count, with equal weights, whichever columns are shown. Models that lack a task have no mean. Above chance: 0 is always giving the most common label, 100 is all right. Rank (these tasks): the 95 % interval of the rank, with other test photos. Rank (similar tasks): the rank expected on similar tasks."],
  ["Tasks with parts", "A task such as NeWT has many parts, each with its own training photos. Its score is the mean over parts unless the heading says otherwise. A burst or animal in several parts still counts as one unit."],
  ["How to get the same numbers", "The lines under each table of a task are its signatures: task and version, a hash of photos and labels, protocol, settings, seed. Equal signatures are the same experiment."],
];

function methodsPage() {
  return [h("h1", {}, "Methods"), ...METHODS.flatMap(([title, text]) => [h("h2", {}, title), h("p", { class: "lead" }, text)])];
}

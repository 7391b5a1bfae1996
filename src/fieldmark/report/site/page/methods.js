/* What do the numbers rest on? In plain words; docs/methods.md has the formulas. */

/** @type {[string, string][]} */
const METHODS = [
  ["What a score is", "A model answers a question about every test photo, and the metric named in the heading sums up the answers. Photos that got no answer (refused, failed, cut off, or not to be read) count as answered wrongly and are marked †; what the score is among those answered stands beside. A row is a model asked in one way; runs that differ in nothing but their seed are one score, their mean."],
  ["What an interval says", "Had the independent units (a burst, a camera, an individual) been others of the same kind, the score would be another; the 95 % interval is made to hold the score of all such units 19 times in 20. Where a model was trained several times, the luck of the training draw is in it too; with one training it is not. Where no interval can be vouched for, none is shown and a note says why."],
  ["What the shading says", "Tier A holds every model that may be the best of its column: no other is better by more than chance explains, when all are looked at together. Tier B holds those that may be the best of the rest, and so on. A letter compares with the best: two models of one letter may still differ, which Compare shows. Models that chose among other options have a column, letters and a verdict of their own. Models are compared at one training size, the largest that most of them share; scores at other sizes have no letter."],
  ["What a comparison says", "First minus second on the items both were asked, unit by unit. Overall is the mean over the tasks that count, each weighted alike; photos that several tasks ask about are one set. The interval holds 0 exactly where p is above 0.05. Task by task, p is corrected for the number of tasks (Holm). All numbers are those of `fieldmark compare`."],
  ["What a mean says", "The mean over all tasks that count, each weighted alike, whichever columns are shown; models that lack one have none. Above chance: the share of the way from always giving the commonest answer to all right. Rank here: had the test items been others; rank elsewhere: had the tasks been others."],
  ["Tasks with parts", "A task such as NeWT has many parts, each with its own training photos. Its score is the mean over parts unless the heading says otherwise. A unit that several parts ask about is one unit."],
  ["How to get the same numbers", "The lines under each table of a task are its signatures: task and version, a hash of items and labels, protocol, settings, seed. Equal signatures are the same experiment."],
];

function methodsPage() {
  return [h("h1", {}, "Methods"), ...METHODS.flatMap(([title, text]) => [h("h2", {}, title), h("p", { class: "lead" }, text)])];
}

"""The answer in words: what does a person need to know, most important first?

One fact a sentence. Numbers are of photos; every claim rests on the statistics of `table`, or says
that it is a guess.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fieldmark.tryout.choice import ROUGH_UNITS
from fieldmark.tryout.evaluate import Sample, Verdict
from fieldmark.tryout.findings import iterate_labels
from fieldmark.words import counted, first_few

MOST_MIX_UPS = 3


def tell_data(sample: Sample) -> Iterator[str]:
    """What the photos are, and what to know about them."""
    table = sample.photos.table
    names, n_c = np.unique(sample.audit.label_n[sample.is_ok_n], return_counts=True)
    small, large = int(np.argmin(n_c)), int(np.argmax(n_c))
    n_ok = int(sample.is_ok_n.sum())
    yield (
        f"{counted(n_ok, 'photo')} of {counted(len(names), 'label')} (from {sample.photos.label_from}): "
        f"fewest of {names[small]} ({n_c[small]}), most of {names[large]} ({n_c[large]})."
    )
    if sample.photos.unit_from:
        yield f"Tested by {sample.photos.unit_from}: {sample.n_units:,} {sample.unit_word}."
    if sample.photos.n_ignored:
        verb = (
            "is not a labelled photo and was"
            if sample.photos.n_ignored == 1
            else ("are not labelled photos and were")
        )
        yield f"{counted(sample.photos.n_ignored, 'file')} {verb} ignored."
    for finding in sample.audit.findings:
        yield finding.text
    small_names = {
        name for f in sample.audit.of_kind("small") for name in sample.untested if name in f.text
    }
    alone = [name for name in sample.untested if name not in small_names]
    if alone:
        verb = "comes" if len(alone) == 1 else "come"
        yield (
            f"{first_few(alone)} {verb} from a single unit: such a label cannot be tested on new "
            f"{sample.unit_word}, and is left out."
        )
    if len(table) == 0:
        yield "There is nothing to test."


def tell(verdict: Verdict) -> Iterator[str]:
    """Everything, the answer first."""
    yield from _answer(verdict)
    yield from _rivals(verdict)
    yield from _mistakes(verdict)
    yield from _confidence(verdict)
    yield from _advice(verdict)
    yield from verdict.notes


def tell_short(verdict: Verdict, is_first: bool) -> str:
    """The answer so far, in a line."""
    choice, best = verdict.choice, verdict.best
    limits = f" ({_per_100(choice.low)} to {_per_100(choice.high)})" if choice.has_interval else ""
    of = f"a first answer, from {len(verdict.sample.rows)} photos" if is_first else "so far"
    return f"{of}: {best.model} is right on {_per_100(choice.accuracy)}{limits} of 100 photos"


def tell_methods(verdict: Verdict) -> Iterator[str]:
    """A paragraph for the methods section, and what to cite."""
    sample, choice = verdict.sample, verdict.choice
    models = list(dict.fromkeys(entry.model for entry in verdict.entries))
    yield (
        f"We compared {counted(len(models), 'frozen image model')} ({', '.join(models)}) on "
        f"{len(sample.rows):,} photos of {len(sample.labels)} labels with fieldmark. Features were "
        f"classified by the nearest class mean or a ridge classifier. Models were tested by "
        f"{int(sample.fold_n.max()) + 1}-fold cross-validation in which photos of one unit were "
        f"never on both sides ({sample.n_units:,} {sample.unit_word})."
    )
    if choice.has_interval:
        yield (
            f"{verdict.best.model} with {verdict.best.head} was chosen for its accuracy; that "
            f"accuracy, corrected for the choice, is {100 * choice.accuracy:.1f} % (95 % interval "
            f"{100 * choice.low:.1f} to {100 * choice.high:.1f} %, over units)."
        )
    yield "Probabilities were calibrated by one temperature, fitted to held-out photos."
    yield "Tsamardinos, Greasidou & Borboudakis 2018, Machine Learning 107: 1895–1922 (the choice)."
    yield "Wang et al. 2019, arXiv 1911.04623 (nearest class mean). Guo et al. 2017, arXiv 1706.04599"
    yield "(temperature). Angelopoulos et al. 2022, arXiv 2208.02814 (unsure photos)."


def short_name(model: str, head: str) -> str:
    return f"{model} with {head}"


def _per_100(share: float) -> str:
    return f"{100 * share:.0f}"


def _answer(verdict: Verdict) -> Iterator[str]:
    choice, best = verdict.choice, verdict.best
    name = short_name(best.model, best.head)
    if not choice.has_interval:
        yield (
            f"{name} was right on {_per_100(choice.accuracy)} of 100 photos, but there are only "
            f"{choice.n_units} {verdict.sample.unit_word}: too few to say how it does on new ones."
        )
        return
    limits = f"{_per_100(choice.low)} to {_per_100(choice.high)}"
    new = (
        "new photos" if verdict.sample.unit_word == "photos" else f"new {verdict.sample.unit_word}"
    )
    if verdict.is_useful:
        yield f"Use {name}."
    else:
        yield (
            f"No model is clearly better than always saying the most common label, which is right "
            f"on {_per_100(verdict.majority)} of 100 photos. {name} scored highest."
        )
    rough = (
        " These limits are rough: there are few of them." if choice.n_units < ROUGH_UNITS else ""
    )
    yield (
        f"On {new} it is right on about {_per_100(choice.accuracy)} of 100 photos "
        f"(95 % limits: {limits}).{rough}"
    )
    leak = verdict.leak
    if leak.low > 0 and leak.value >= 1:
        own = 100 * float(verdict.tested.is_right_n.mean())
        yield (
            f"A random split would have shown {own + leak.value:.0f} instead of {own:.0f}: "
            "near-identical frames would have been on both sides."
        )
    if verdict.genus is not None:
        yield f"The genus is right on {_per_100(verdict.genus.accuracy)} of 100 photos."


def _rivals(verdict: Verdict) -> Iterator[str]:
    close = [rival for rival in verdict.rivals if rival.is_as_good]
    if close:
        names = [f"{r.model} ({_per_100(r.accuracy)})" for r in close]
        yield f"Too close to call: {first_few(names, 4)} could be as good."
        more = [rival.units_to_decide for rival in close if rival.units_to_decide]
        if more:
            yield (
                f"About {max(more):,} more {verdict.sample.unit_word} like these would decide; "
                "otherwise take the faster one."
            )
    behind = [rival for rival in verdict.rivals if not rival.is_as_good]
    if behind:
        names = [f"{rival.model} ({_per_100(rival.accuracy)})" for rival in behind]
        yield f"Clearly worse: {first_few(names, 4)}."


def _mistakes(verdict: Verdict) -> Iterator[str]:
    for pair in verdict.mix_ups[:MOST_MIX_UPS]:
        yield (
            f"It mixes up {pair.first} and {pair.second}: {pair.n_first_as_second} of "
            f"{pair.n_first} photos of {pair.first} were called {pair.second}, and "
            f"{pair.n_second_as_first} of {pair.n_second} the other way."
        )
    for weak in verdict.weaknesses[:MOST_MIX_UPS]:
        what = f"{weak.label} is" if weak.label else "Photos are"
        where = {"night": "at night", "blur": "in blurred photos"}.get(
            weak.condition, weak.condition
        )
        yield (
            f"{what} recognised less often {where}: {weak.n_right_inside} of {weak.n_inside} right, "
            f"against {weak.n_right_outside} of {weak.n_outside} otherwise."
        )
    suspects = verdict.suspects
    if suspects.rows:
        image = verdict.sample.table.get_column("image")
        shown = [
            f"{image[row]} ({verdict.sample.labels[code]}?)"
            for row, code in zip(suspects.rows, suspects.suggested, strict=True)
        ]
        yield (
            f"Check {counted(len(shown), 'label')}: every model says something else, and about "
            f"{suspects.expected:.0f} of them may be wrong: {first_few(shown, 3)}."
        )


def _confidence(verdict: Verdict) -> Iterator[str]:
    threshold = verdict.threshold
    if not threshold.is_promise:
        yield (
            f"There are too few {verdict.sample.unit_word} ({verdict.choice.n_units}; 19 are needed) "
            "to promise how often a label that it is sure of is wrong."
        )
    elif threshold.share_named == 0:
        yield "It is not sure enough of any photo: look at all of them yourself."
    elif threshold.share_named > 0.995:
        yield (
            f"It is sure of every photo; about {100 * threshold.share_wrong:.1f} of 100 are wrong."
        )
    else:
        yield (
            f"It names {_per_100(threshold.share_named)} of 100 photos, of which about "
            f"{100 * threshold.share_wrong:.1f} are wrong, and leaves the others to you as unsure. "
            "On average at most 5 of 100 photos will be named wrongly."
        )
    rarest = min(verdict.searches, key=lambda search: search.n_units)
    if rarest.n_units >= 59:
        sure = "with 95 % confidence"
    else:
        sure = (
            f"only {_per_100(rarest.at_least)} % are certain to be found, because there are just "
            f"{rarest.n_units} examples"
        )
    yield (
        f"To find 95 % of {rarest.label}, look at the {_per_100(rarest.share)} of 100 photos that it "
        f"ranks highest ({sure})."
    )


def _advice(verdict: Verdict) -> Iterator[str]:
    gain = verdict.doubling
    if gain.low > 0:
        yield (
            f"More photos would help: the last doubling gave {gain.value:+.0f} points "
            f"({gain.low:.0f} to {gain.high:.0f})."
        )
        _, name, n, n_right = next(iterate_labels(verdict.tested))
        yield (
            f"A guess: photos of {name} would help most ({n_right} of {n} right), from other "
            f"{verdict.sample.unit_word}."
        )
    if verdict.best.images_per_s:
        yield f"This machine reads about {verdict.best.images_per_s:.0f} photos per second with it."

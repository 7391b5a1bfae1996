"""The answer in words: what does a person need to know, most important first?

One fact a sentence. Numbers are of photos. Every claim rests on the statistics of `table`, or says
that it is a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from fieldmark.data.read.own_photos import SHOWN
from fieldmark.tryout.judge.choice import ROUGH_UNITS
from fieldmark.tryout.judge.confidence import POOR, WRONG_PER_PHOTO
from fieldmark.tryout.judge.findings import iterate_labels, worst_cell
from fieldmark.tryout.judge.heads import CLASS_MEANS, LABEL_NAMES, RIDGE
from fieldmark.words import counted, first_few

if TYPE_CHECKING:
    from fieldmark.tryout.evaluate import Rival, Verdict
    from fieldmark.tryout.survey import Survey

MOST = 3
"""sentences of one kind"""
GOOD = 0.5
"""of new photos: a model that is wrong more often is recommended to nobody"""
MOST_NAMES = 12
"""labels that are listed"""
MOST_LOOKED_AT = 0.8
"""of all photos, to find those of a label: beyond that, the ranking saves nothing"""
MOST_MORE = 10
"""times as many units as there are: nobody takes so many more photos to decide"""
SMALL = 0.02
"""of accuracy: a difference that does not matter where only so many photos would show it"""
MOST_COLUMNS = 200
"""labels whose probabilities have a column each in tables of predictions"""
_HEADS = {
    CLASS_MEANS: "the nearest class mean",
    RIDGE: "a ridge classifier",
    LABEL_NAMES: "the names of your labels, without training",
}
_WHERE = {"night": "at night", "blur": "in blurred photos"}


def tell_data(survey: Survey) -> Iterator[str]:
    """What the photos are, and what to know about them."""
    yield from tell_counts(survey)
    for _, same in groupby(survey.audit.findings, key=lambda finding: finding.kind):
        texts = [finding.text for finding in same]
        yield from texts[:MOST]
        if len(texts) > MOST:
            yield f"And {len(texts) - MOST:,} more like that: `fieldmark check` lists them all."
    if survey.in_one_unit:
        yield tell_single(survey)


def tell_counts(survey: Survey) -> Iterator[str]:
    """How many photos of what, and what names their label and their unit."""
    counts = survey.counts
    small, large = (extreme(counts, key=lambda name: counts[name]) for extreme in (min, max))
    whole = f"{counted(sum(counts.values()), 'photo')} with {counted(len(counts), 'label')}"
    if counts[small] == counts[large]:
        yield f"{whole}, {counts[small]} of each."
    else:
        span = f"{counts[small]} ({small}) to {counts[large]} ({large})"
        yield f"{whole}: {span} photos per label."
    names = first_few([*counts], MOST_NAMES)
    yield f"Labels are read from {survey.photos.label_from}: {names}."
    if n_cut := int(survey.photos.table.get_column("crop").filter(survey.is_ok_n).count()):
        rest = "" if n_cut == sum(counts.values()) else " The others stay whole."
        yield f"{counted(n_cut, 'photo is cut to its box', 'photos are cut to their boxes')}.{rest}"
    if survey.photos.unit_from:
        n_alone = survey.photos.table.get_column("unit").filter(survey.is_ok_n).null_count()
        n_named, units = survey.n_units - n_alone, survey.unit_word
        are_read = counted(n_named, f"{survey.unit_name} is", f"{units} are") + " read from"
        tested = f"Models are tested on {units} that they were not trained on."
        yield f"{are_read} {survey.photos.unit_from}. {tested}"
        if n_alone:
            have = "has" if n_alone == 1 else "have"
            yield (
                f"{counted(n_alone, 'photo')} {have} no {survey.unit_name}: each counts as a "
                "separate one."
            )
    if n := survey.photos.n_ignored:
        is_one = "file is not a labelled photo and was ignored"
        ignored = counted(n, is_one, "files are not labelled photos and were ignored")
        shown = ", ".join(survey.photos.ignored)
        more = f" and {n - SHOWN:,} more" if n > SHOWN else ""
        yield f"{ignored}: {shown}{more}." if shown else f"{ignored}."


def tell_single(survey: Survey) -> str:
    """Labels that cannot be tested, because all their photos are of one unit."""
    unit = survey.unit_name if survey.photos.unit_from else "burst"
    is_one = len(survey.in_one_unit) == 1
    source, it_was = (f"one {unit}", "it was") if is_one else (f"one {unit} each", "they were")
    return (
        f"All photos of {first_few(survey.in_one_unit)} come from {source}, so {it_was} left out: "
        f"no test on another {unit} is possible."
    )


def tell_short(tried: str, best: str, accuracy: float, n_first: int = 0) -> str:
    """The score so far, in a line; `n_first` photos were a sample for a first answer."""
    if best != tried:
        return f"Tried {tried}. Still the best: {best}."
    opening = f"A first answer, from {n_first} photos: {best} was"
    opening = opening if n_first else f"Tried {tried}: the best so far,"
    return f"{opening} right on {_per_100(accuracy)} of 100 photos."


def tell(verdict: Verdict) -> Iterator[str]:
    """Everything, the answer first."""
    yield from _answer(verdict)
    yield from _rivals(verdict)
    yield from _chat(verdict)
    yield from _mistakes(verdict)
    yield from _confidence(verdict)
    yield from _advice(verdict)
    yield from verdict.notes


def tell_methods(verdict: Verdict) -> Iterator[str]:
    """A paragraph for a methods section, and what to cite."""
    sample, choice = verdict.sample, verdict.choice
    models = list(dict.fromkeys(entry.model for entry in verdict.entries))
    alike, units = f"Photos of one {sample.survey.unit_name}", sample.unit_word
    if not sample.photos.unit_from:
        alike, units = "Near-identical photos", "independent photos"
    yield (
        f"We compared {counted(len(models), 'frozen image model')} ({', '.join(models)}) on "
        f"{len(sample.rows):,} photos with {len(sample.labels)} labels, using fieldmark. Features "
        "were classified by the nearest class mean or by a ridge classifier. Models were tested by "
        f"{sample.n_folds}-fold cross-validation. {alike} were never on both sides of a test "
        f"({sample.n_units:,} {units})."
    )
    if n_left := int(sample.survey.is_ok_n.sum()) - len(sample.rows):
        n_labels = len(sample.survey.counts) - len(sample.labels)
        left = f"{counted(n_left, 'photo')} of {counted(n_labels, 'label')}"
        yield f"Left out were {left} with too few photos or units to be tested."
    if any(entry.untrained for entry in verdict.entries):
        yield (
            "Models that read text were also asked for the nearest label name, without training "
            "(Radford et al. 2021, arXiv 2103.00020)."
        )
    if choice.has_interval:
        yield (
            f"{verdict.best.model} with {_HEADS[verdict.best.head]} was chosen for its accuracy. "
            f"Corrected for the choice, that accuracy is {100 * choice.accuracy:.1f} % (95 % "
            f"interval {100 * choice.low:.1f} to {100 * choice.high:.1f} %, over units)."
        )
    yield "Probabilities were calibrated by one temperature, fitted to held-out photos."
    yield (
        "Cite: Tsamardinos, Greasidou & Borboudakis 2018, Machine Learning 107: 1895–1922 (the "
        "choice); Wang et al. 2019, arXiv 1911.04623 (nearest class mean); Guo et al. 2017, arXiv "
        "1706.04599 (temperature); Angelopoulos et al. 2022, arXiv 2208.02814 (unsure photos)."
    )


def _per_100(share: float) -> str:
    return f"{100 * share:.0f}"


def _round(n: float) -> int:
    """To two digits: none of these numbers is known better.

    >>> _round(4974), _round(304.2), _round(7.4)
    (5000, 300, 7)
    """
    return int(float(f"{n:.2g}")) if n >= 10 else round(n)


def _answer(verdict: Verdict) -> Iterator[str]:
    choice, best = verdict.choice, verdict.best
    name, units = f"{best.model} with {_HEADS[best.head]}", verdict.sample.unit_word
    shown = float(verdict.held_out.is_right_n.mean())
    if not choice.has_interval:
        yield (
            f"{name} was right on {_per_100(shown)} of 100 photos, but {choice.n_units} {units} "
            "are too few to say how it does on new ones."
        )
        return
    if verdict.is_useful and choice.accuracy >= GOOD:
        yield f"Use {name}."
    elif verdict.is_useful:
        yield f"No model is good enough yet: even the best, {name}, is wrong on most photos."
    else:
        yield (
            "No model is clearly better than always giving the most common label, which is right "
            f"on {_per_100(verdict.majority)} of 100 photos. {name} scored highest."
        )
    yield (
        f"On new {units} it is right on about {_per_100(choice.accuracy)} of 100 photos (95 % "
        f"limits: {_per_100(choice.low)} to {_per_100(choice.high)})."
    )
    if verdict.is_useful and choice.accuracy < GOOD:
        yield f"Always giving the most common label is right on {_per_100(verdict.majority)}."
    if choice.n_units < ROUGH_UNITS:
        yield f"These limits are rough: there are only {choice.n_units} {units}."
    leak = verdict.leak
    if leak and leak.low > 0 and leak.difference >= 0.01:
        more = _per_100(shown + leak.difference)
        is_named = verdict.sample.photos.unit_from
        alike = f"photos of the same {units}" if is_named else "near-identical photos"
        yield (
            f"A random split would have shown {more} instead of {_per_100(shown)}, "
            f"because {alike} would have been on both sides."
        )
    for rank, on_rank in verdict.ranks:
        yield f"It gets the {rank} right on {_per_100(on_rank.accuracy)} of 100 photos."


def _rivals(verdict: Verdict) -> Iterator[str]:
    close = [rival for rival in verdict.rivals if rival.is_as_good]
    if close:
        names = [f"{rival.model} ({_per_100(rival.accuracy)})" for rival in close]
        highest = float(verdict.held_out.is_right_n.mean())
        yield (
            f"Too close to call: {verdict.best.model} scored highest here ({_per_100(highest)}), "
            f"but {first_few(names, 4)} could be as good."
        )
        yield from _faster(verdict, close, highest)
    if behind := [rival for rival in verdict.rivals if not rival.is_as_good]:
        names = [f"{rival.model} ({_per_100(rival.accuracy)})" for rival in behind]
        yield f"Clearly worse: {first_few(names, 4)}."
    if asked := [one for one in verdict.entries if one.untrained and one is not verdict.best]:
        best = max(asked, key=verdict.sample.accuracy)
        right = _per_100(verdict.sample.accuracy(best))
        yield f"From the names of your labels alone, untrained, {best.model} is right on {right}."


def _faster(verdict: Verdict, close: Sequence[Rival], highest: float) -> Iterator[str]:
    """Is another model worth waiting for? Speeds of about the same size count as equal."""
    speed_of = {entry.model: entry.images_per_s for entry in verdict.entries}
    pace_of = {name: round(math.log2(max(speed, 0.01))) for name, speed in speed_of.items()}
    names = [verdict.best.model, *(rival.model for rival in close)]
    fastest = max((name for name in pace_of if name in names), key=lambda name: pace_of[name])
    rival = next((rival for rival in close if rival.model == fastest), None)
    more = rival.units_to_decide if rival else max(one.units_to_decide for one in close)
    n_units, units = verdict.sample.n_units, verdict.sample.unit_word
    tested = f"independent {units}" if units == "photos" else units
    is_far, use = more > MOST_MORE * n_units, f"`--models {fastest}`"
    if rival and (not more or (is_far and highest - rival.accuracy < SMALL)):
        yield f"The difference is too small to matter: use {fastest}, the fastest ({use})."
    elif more:
        need = f"{_round(more):,} more {units} like yours"
        decide = f"Telling these models apart would take about {need}."
        decide = f"{n_units} {tested} are too few to tell these models apart." if is_far else decide
        yield decide + (f" Until then, {fastest} is the fastest: {use} takes it." if rival else "")


def _chat(verdict: Verdict) -> Iterator[str]:
    if (chat := verdict.chat) is None:
        return
    sign = ("worse", "better")[chat.gain.difference > 0]
    how = f"The chat model is clearly {sign}" if chat.gain.is_clear else "That is too close to call"
    price = "price unknown" if chat.usd is None else f"${chat.usd:.2f}"
    yield (
        f"{chat.model} was right on {chat.n_right} of {counted(chat.n, 'photo')}, and "
        f"{verdict.best.model} on {chat.n_chosen_right} of the same photos. {how} ({price})."
    )


def _mistakes(verdict: Verdict) -> Iterator[str]:
    yield from _hardest(verdict)
    for pair in verdict.mix_ups[:MOST]:
        yield (
            f"It mixes up {pair.first} and {pair.second}: {pair.n_first_as_second} of "
            f"{pair.n_first} photos of {pair.first} were called {pair.second}, and "
            f"{pair.n_second_as_first} of {pair.n_second} the other way round."
        )
    cell = worst_cell(verdict.held_out)
    if cell and set(cell[:2]) not in [{pair.first, pair.second} for pair in verdict.mix_ups[:MOST]]:
        given, answer, n_wrong, n = cell
        yield f"Most common mistake: {n_wrong} of {n} photos of {given} were called {answer}."
    for weak in verdict.weaknesses[: 2 * MOST]:
        what = f"{weak.label} is" if weak.label else "Photos are"
        where = _WHERE.get(weak.condition, weak.condition)
        yield (
            f"{what} recognised less often {where}: {weak.n_right_inside} of {weak.n_inside} "
            f"right, against {weak.n_right_outside} of {weak.n_outside} otherwise."
        )
    suspects, sample = verdict.suspects, verdict.sample
    if suspects.rows:
        image = sample.table.get_column("image")
        shown = [
            f"{image[row]} ({sample.labels[code]}?)"
            for row, code in zip(suspects.rows, suspects.suggested, strict=True)
        ]
        yield (
            f"Check {counted(len(shown), 'label')}: all good models disagree with them, and about "
            f"{suspects.expected:.0f} may be wrong: {first_few(shown, MOST)}."
        )
    elif suspects.is_checked:
        kinds = {finding.kind for finding in sample.survey.audit.findings}
        other = "other " if "conflict" in kinds else ""
        yield f"No {other}label looks clearly wrong to these models."
    else:
        scores = (float(verdict.held_out.is_right_n.mean()), *(r.accuracy for r in verdict.rivals))
        why = "that takes two models that do clearly better than guessing"
        if sum(score > verdict.majority + 0.1 for score in scores) > 1:
            n_units, units = sample.n_units, sample.unit_word
            why = f"{n_units} {units} are too few to say that two models do better than guessing"
        yield f"Labels not checked: {why}."


def _hardest(verdict: Verdict) -> Iterator[str]:
    """The label that is right least often, or those that tie."""
    labels = list(iterate_labels(verdict.held_out))
    _, worst, n, n_right = labels[0]
    if n_right == n:
        return
    tied = [name for _, name, m, k in labels if k * n == n_right * m]
    if len(tied) == 1:
        yield f"Hardest label: {worst}, with {n_right} of {n} photos right."
    elif len(tied) < len(labels):
        right = f"{_per_100(n_right / n)} % of its photos" if n_right else "no photo"
        yield f"Hardest labels: {first_few(tied, MOST)}, each with {right} right."


def _confidence(verdict: Verdict) -> Iterator[str]:
    threshold, units = verdict.threshold, verdict.sample.unit_word
    n_left, n_wrong = round(100 * (1 - threshold.share_named)), round(100 * threshold.share_wrong)
    n_right = 100 - n_left - n_wrong
    wrong = f"{n_wrong}" if n_wrong else "none" if not threshold.share_wrong else "fewer than 1"
    if not threshold.is_promise:
        n_needed = round(1 / WRONG_PER_PHOTO) - 1
        yield (
            f"There are too few {units} ({verdict.choice.n_units}; it takes {n_needed}) to promise "
            "how often it is wrong when it is sure. Its probabilities are rough as well."
        )
    elif n_left == 100:
        yield "It is not sure enough of any photo: look at all of them yourself."
    else:
        rest = f", and leaves {n_left} to you as unsure" if n_left else ""
        yield f"Of 100 photos, it names {n_right} correctly and {wrong} wrongly{rest}."
        if threshold.wrong_of_named >= POOR:
            n_of_100 = _per_100(threshold.wrong_of_named)
            yield f"So about {n_of_100} % of the names that it gives are wrong: check them all."
        new = "" if units == "photos" else f" at new {units}"
        n_most = round(100 * WRONG_PER_PHOTO)
        yield f"Of 100 new photos{new}, expect at most {n_most} to get a wrong name."
        if unsure := _unsure(verdict):
            yield f"It was unsure most often of {unsure}."
    yield from _search(verdict)


def _search(verdict: Verdict) -> Iterator[str]:
    """How many photos to check for the rarest label, or of several the one found most easily."""
    units, searches = verdict.sample.unit_word, verdict.searches
    rarest = min(searches, key=lambda search: (search.n_units, search.share))
    n, label, share = rarest.n_units, rarest.label, _per_100(rarest.share)
    is_promise = rarest.at_least >= verdict.wanted
    what = f"{_per_100(verdict.wanted)} % of {label}" if is_promise else f"nearly all {label}"
    reason, least = f"the label at the fewest {units}", [search.n_units for search in searches]
    if units == "photos":
        reason, least = "your rarest label", [search.n_photos for search in searches]
    if least.count(min(least)) == 1 and least[searches.index(rarest)] == min(least):
        what = f"{what} ({reason})"
    if rarest.share > MOST_LOOKED_AT:
        yield f"To find {what}, you would have to check {share} % of all photos."
        return
    column = f": sort predictions.csv by the column p({label})"
    how = column if len(searches) <= MOST_COLUMNS else ""
    yield f"To find {what}, check the {share} % of photos most likely to be {label}{how}."
    if not is_promise:
        n_found = round(rarest.share_found * n)
        at = f"{'both' if n == 2 else f'all {n:,}'} {units}"
        at = at if n_found == n else f"{n_found:,} of {n:,} {units}"
        yield (
            f"This {'found' if units == 'photos' else 'worked at'} {at} here. With so few, count "
            f"on only {_per_100(rarest.at_least)} % of new ones."
        )


def _unsure(verdict: Verdict) -> str:
    """The labels of which it was unsure most often, with counts of their photos."""
    held_out = verdict.held_out
    is_unsure_n = held_out.prob_nc.max(axis=1) < verdict.threshold.at_least
    cells = []
    for code, name, n, _ in iterate_labels(held_out):
        if n_unsure := int(is_unsure_n[held_out.code_n == code].sum()):
            cells.append((-n_unsure / n, f"{name} ({n_unsure} of {n})"))
    cells.sort()
    if len(cells) > MOST and cells[0][0] == cells[MOST][0]:
        return ""  # of labels that tie, the first of the alphabet mean nothing
    return ", ".join(text for _, text in cells[:MOST])


def _advice(verdict: Verdict) -> Iterator[str]:
    gain = verdict.doubling
    if gain and gain.low > 0:
        yield (
            "More photos would help: trained on half of them, it was right on "
            f"{_per_100(gain.difference)} fewer of 100 photos (95 % limits: "
            f"{_per_100(gain.low)} to {_per_100(gain.high)})."
        )
        _, name, n, n_right = next(iterate_labels(verdict.held_out))
        if n_right < n:
            yield f"More photos of {name} would probably help most."
    if verdict.best.images_per_s:
        speed = verdict.best.images_per_s
        pace = f"{counted(max(1, _round(speed)), 'photo')} per second"
        if speed < 0.75:
            pace = f"1 photo in {_round(1 / speed):,} seconds"
        yield f"It processes about {pace} on this machine."

"""Error analysis: what does the chosen model get wrong, where, and which labels look wrong?

Everything here is about photos that the model was tested on by heads that never saw their unit.
A claim (two labels are mixed up, a label fails at night, a label looks wrong) is made only where
chance would produce it in fewer than 1 of 20 sets of photos, all claims of its kind together
(Bonferroni); what chance may produce is not told. Counts are of units, whose photos are alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fieldmark.taxa import parse_name, plain
from fieldmark.tryout.judge.confidence import fit_temperature, softmax
from fieldmark.tryout.look.hashes import Looks

LEVEL = 0.05
LEAST_CELL = 5
"""units on each side of a comparison"""
LEAST_MISTAKES = 3
SURE = 0.9
"""probability from which a label is doubted"""
FOUND = 0.95
"""of a label's photos that a person wants to find"""
_NIGHT_BRIGHTNESS, _NIGHT_COLOUR = 60.0, 8.0
_BLUR = 0.4
"""of the median sharpness"""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The chosen model's answers to n photos that it was tested on."""

    code_n: np.ndarray
    """numbers of the labels"""
    prob_nc: np.ndarray
    unit_n: np.ndarray
    labels: tuple[str, ...]

    @property
    def answer_n(self) -> np.ndarray:
        return np.asarray(self.prob_nc.argmax(axis=1))

    @property
    def is_right_n(self) -> np.ndarray:
        return np.asarray(self.answer_n == self.code_n)


# --- mix-ups


@dataclass(frozen=True, slots=True)
class MixUp:
    """Two labels that are taken for each other."""

    first: str
    second: str
    n_first: int
    """photos of the first label"""
    n_first_as_second: int
    n_second: int
    n_second_as_first: int


def find_mix_ups(held_out: HeldOut) -> list[MixUp]:
    """Pairs of labels that take more of each other's mistakes than mistakes spread evenly would."""
    from scipy.stats import binom

    labels, n_labels = held_out.labels, len(held_out.labels)
    if n_labels < 3:
        return []
    units_of: dict[tuple[int, int], list[int]] = defaultdict(list)
    missed: dict[int, set[int]] = defaultdict(set)
    columns = (held_out.code_n, held_out.answer_n, held_out.unit_n)
    for given, answer, unit in np.stack(columns, axis=1)[~held_out.is_right_n].tolist():
        units_of[given, answer].append(unit)
        missed[given].add(unit)
    n_c = np.bincount(held_out.code_n, minlength=n_labels).tolist()
    pairs = []
    # One way only is no likeness: labels look wrong, or one label swallows the other.
    for a, b in sorted((a, b) for a, b in units_of if a < b and (b, a) in units_of):
        there, back = units_of[a, b], units_of[b, a]
        n = len(set(there)) + len(set(back))
        # A wrong answer that means nothing falls on each of the other labels alike.
        chance = binom.sf(n - 1, len(missed[a]) + len(missed[b]), 1 / (n_labels - 1))
        if n >= 3 and chance * math.comb(n_labels, 2) < LEVEL:
            pair = MixUp(labels[a], labels[b], n_c[a], len(there), n_c[b], len(back))
            pairs.append((n, pair))
    return [pair for _, pair in sorted(pairs, key=lambda item: -item[0])]


def worst_cell(held_out: HeldOut) -> tuple[str, str, int, int] | None:
    """A label, the wrong answer that the largest share of its photos got, how many got it, and of
    how many; None where that is one or two photos.
    """
    labels, pairs = held_out.labels, np.stack([held_out.code_n, held_out.answer_n])
    cells, n_k = np.unique(pairs[:, ~held_out.is_right_n], axis=1, return_counts=True)
    if not (n_k >= LEAST_MISTAKES).any():
        return None
    n_c = np.bincount(held_out.code_n)
    at = int(np.where(n_k >= LEAST_MISTAKES, n_k / n_c[cells[0]], 0).argmax())
    given, answer = cells[:, at].tolist()
    return labels[given], labels[answer], int(n_k[at]), int(n_c[given])


# --- conditions


@dataclass(frozen=True, slots=True)
class Weakness:
    """A condition under which a label (or everything) is recognised less often."""

    condition: str
    """night, blur, or a unit's name"""
    label: str
    """"" = all labels together"""
    n_inside: int
    n_right_inside: int
    n_outside: int
    n_right_outside: int


def conditions(looks: Looks, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Which of some photos were taken at night (dark, or infrared), and which are blurred."""
    is_grey = looks.colourfulness_n[rows] < _NIGHT_COLOUR
    # Where every photo is grey (herbarium scans, microscopes), grey does not mean night.
    is_infrared = is_grey if is_grey.mean() < 0.8 else np.zeros_like(is_grey)
    is_night = (looks.brightness_n[rows] < _NIGHT_BRIGHTNESS) | is_infrared
    sharpness_k = looks.sharpness_n[rows]
    is_blurred = sharpness_k < _BLUR * np.median(sharpness_k)
    return {"night": is_night, "blur": is_blurred & ~is_night}


def find_weak_places(
    held_out: HeldOut, name_u: Sequence[str], burst_n: np.ndarray
) -> list[Weakness]:
    """Cameras or sites at which the model is right less often than elsewhere. Photos of one place
    are counted in bursts, for its frames are one event; all places together are one family.
    """
    n_u = np.bincount(held_out.unit_n)
    large = np.flatnonzero(n_u >= LEAST_CELL).tolist()
    at_unit = {f"at {name_u[unit]}": held_out.unit_n == unit for unit in large}
    return find_weaknesses(dataclasses.replace(held_out, unit_n=burst_n), at_unit, by_label=False)


def find_weaknesses(
    held_out: HeldOut, condition: dict[str, np.ndarray], by_label: bool = True
) -> list[Weakness]:
    """Conditions that make a difference: Fisher's exact test over units."""
    groups = [("", np.ones(len(held_out.code_n), bool))]
    if by_label:
        groups += [(name, held_out.code_n == code) for code, name in enumerate(held_out.labels)]
    cells = []
    for word, is_inside_n in condition.items():
        for label, is_label_n in groups:
            sides = is_label_n & is_inside_n, is_label_n & ~is_inside_n
            inside, outside = (_unit_scores(held_out, side_n) for side_n in sides)
            if len(inside) >= LEAST_CELL and len(outside) >= LEAST_CELL:
                counts = [(int(s.sum()), int((s & held_out.is_right_n).sum())) for s in sides]
                weakness = Weakness(word, label, *counts[0], *counts[1])
                gap = float(outside.mean() - inside.mean())
                cells.append((_fisher(inside, outside), gap, weakness))
    clear = [cell for cell in cells if cell[0] * len(cells) < LEVEL and cell[1] > 0.1]
    return [weakness for *_, weakness in sorted(clear, key=lambda cell: cell[0])]


def _unit_scores(held_out: HeldOut, is_in_n: np.ndarray) -> np.ndarray:
    """Share of right answers in each unit."""
    unit_k = np.unique(held_out.unit_n[is_in_n], return_inverse=True)[1]
    n_u = np.bincount(unit_k)
    return np.asarray(np.bincount(unit_k, held_out.is_right_n[is_in_n]) / np.maximum(n_u, 1))


def _fisher(inside: np.ndarray, outside: np.ndarray) -> float:
    from scipy.stats import fisher_exact

    right = round(float(inside.sum())), round(float(outside.sum()))
    table = [[right[0], len(inside) - right[0]], [right[1], len(outside) - right[1]]]
    return float(fisher_exact(table, alternative="less").pvalue)


# --- labels that look wrong


@dataclass(frozen=True, slots=True)
class Suspects:
    """Photos whose label all good models doubt."""

    rows: tuple[int, ...]
    """most doubtful first; one per unit and pair of labels"""
    suggested: tuple[int, ...]
    """the label that the models give"""
    expected: float
    """how many of them are wrong, if the probabilities are right: the others are its mistakes"""
    is_checked: bool = True
    """False: no two models are good enough to doubt a label"""


def find_suspects(
    held_out: HeldOut, others: list[np.ndarray], mix_ups: Sequence[MixUp] = ()
) -> Suspects:
    """Photos that every model (`others`: answers of models of other kinds) surely gives one other
    label; not between labels that are mixed up anyway.

    A good model is wrong now and then where it is sure, so that there must be clearly more such
    photos than that. How often it would be is told by its probabilities, calibrated without the
    photos in question: wrong labels make a model look less sure than it is.
    """
    from scipy.stats import poisson

    answer_n = held_out.answer_n
    alike = {frozenset((pair.first, pair.second)) for pair in mix_ups}
    in_question = ~held_out.is_right_n
    for other_n in others:
        in_question &= other_n == answer_n
    prob_nc = _calibrated_without(held_out, in_question)
    sure_n = prob_nc.max(axis=1)
    rows = np.flatnonzero(in_question & (sure_n >= SURE))
    rows = rows[np.argsort(prob_nc[rows, held_out.code_n[rows]], kind="stable")]
    row_of: dict[tuple[int, int, int], int] = {}
    for row in map(int, rows):
        given, answer = int(held_out.code_n[row]), int(answer_n[row])
        if frozenset((held_out.labels[given], held_out.labels[answer])) not in alike:
            row_of.setdefault((int(held_out.unit_n[row]), given, answer), row)
    kept = tuple(row_of.values())
    # Mistakes of photos of one unit are one mistake.
    weight_n = 1 / np.bincount(held_out.unit_n)[held_out.unit_n]
    chance = float((weight_n * (1 - sure_n))[sure_n >= SURE].sum())
    if len(kept) < 2 or poisson.sf(len(kept) - 1, chance) >= LEVEL:
        return Suspects((), (), 0.0)
    return Suspects(kept, tuple(int(answer_n[row]) for row in kept), len(kept) - chance)


def _calibrated_without(held_out: HeldOut, is_left_out_n: np.ndarray) -> np.ndarray:
    """Probabilities whose temperature is fitted to the other photos."""
    score_nc = np.log(np.maximum(held_out.prob_nc, 1e-30))
    kept = ~is_left_out_n
    if not is_left_out_n.any() or not kept.any():
        return held_out.prob_nc
    weight_k = np.ones(int(kept.sum()))
    temperature = fit_temperature(score_nc[kept], held_out.code_n[kept], weight_k)
    return softmax(score_nc, temperature)


# --- finding all photos of a label


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How many photos a person must look at to find most of a label's."""

    label: str
    share: float
    """of all photos"""
    share_found: float
    """of the label's units that are then found, here"""
    at_least: float
    """found among new photos, with 95 % confidence"""
    n_units: int
    """units with that label"""
    n_photos: int


def plan_search(
    held_out: HeldOut, code: int, share: float = FOUND, are_bursts: bool = True
) -> SearchPlan:
    """Ranks photos by the label's probability and stops where enough are found.

    A burst is found by any of its photos, for one frame shows the animal; a camera or site, where
    the wanted share of its photos is found. With P positive units of which r - 1 may lie below the
    threshold, P(Binomial(P, 1 - wanted) >= r) >= 0.95 promises the wanted share; it takes 59 units
    to promise 95 %. With fewer, all are to be found, and `at_least` is what that promises:
    0.05^(1 / P).
    """
    from scipy.stats import beta, binom

    prob_n = held_out.prob_nc[:, code]
    is_label = held_out.code_n == code
    units = np.unique(held_out.unit_n[is_label])
    best_first = [np.sort(prob_n[is_label & (held_out.unit_n == unit)])[::-1] for unit in units]
    needed = [1 if are_bursts else math.ceil(share * len(prob_k)) for prob_k in best_first]
    last_u = np.array([prob_k[n - 1] for prob_k, n in zip(best_first, needed, strict=True)])
    n_units = len(units)
    # the most units that may be missed such that the promise still holds
    allowed = [r for r in range(n_units + 1) if binom.sf(r, n_units, 1 - share) >= 0.95]
    n_missed = max(allowed, default=0)
    threshold = np.sort(last_u)[n_missed]
    n_found = int((last_u >= threshold).sum())
    at_least = float(beta.ppf(0.05, n_found, n_units - n_found + 1))
    is_seen = prob_n >= threshold
    shares, n_photos = (float(is_seen.mean()), n_found / n_units), int(is_label.sum())
    return SearchPlan(held_out.labels[code], *shares, at_least, n_units, n_photos)


# --- ranks above the label


def genus_of(labels: tuple[str, ...]) -> dict[str, str]:
    """Label → genus, where all labels are scientific names of species."""
    names = {label: parse_name(plain(label)) for label in labels}
    genera = {label: name.genus for label, name in names.items() if name and name.species}
    return genera if len(genera) == len(labels) else {}


def iterate_labels(held_out: HeldOut) -> Iterator[tuple[int, str, int, int]]:
    """Number, name, photos and right answers of each label, the worst first."""
    n_c = np.bincount(held_out.code_n, minlength=len(held_out.labels))
    right_c = np.bincount(held_out.code_n[held_out.is_right_n], minlength=len(held_out.labels))
    order = np.argsort(right_c / np.maximum(n_c, 1), kind="stable")
    for code in order:
        if n_c[code]:
            yield int(code), held_out.labels[code], int(n_c[code]), int(right_c[code])

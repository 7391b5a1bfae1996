"""Bootstrap and jackknife: what would the scores have been, had other units been met?

Units are drawn with replacement, within each part. Units with the same content are
interchangeable, so a resample is one multinomial draw of how often each *kind* of unit occurs:
the order of the items cannot matter, and a 0/1 mean without clusters costs two numbers a draw.

Scores that are any function of a list of items: units are drawn with replacement (`unit_weights`,
whose scores go to `percentile_limits`), or, for functions that no item may enter twice, blocks of
units are left out in turn (`unit_blocks`, `jackknife_limits`; Shao & Tu 1995, chapter 2.3).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark import draws
from fieldmark.stats.influence import form_of, item_share, read_classes
from fieldmark.stats.items import (
    Items,
    Metric,
    count_units,
    item_values,
    number_rows,
    weighted_score,
)
from fieldmark.stats.macro_interval import class_spread

_BLOCK_ENTRIES = 1 << 21


@dataclass(frozen=True, slots=True)
class Resampling:
    """How resamples are drawn; equal settings give equal intervals."""

    draws: int = 2000
    level: float = 0.95
    seed: int = 0
    task: str = ""
    """part of the seed, so that tasks do not share their luck"""

    def __post_init__(self) -> None:
        if self.draws < 1 or not 0 < self.level < 1:
            raise ValueError(
                f"draws is {self.draws} and level {self.level}: expected draws from 1 up and a "
                "level between 0 and 1."
            )

    def generator(self, purpose: str) -> np.random.Generator:
        return draws.generator(self.seed, self.task, "", purpose)


DEFAULT = Resampling()


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of units: the units of one kind have the same content."""

    count: np.ndarray
    """units of the kind"""
    part: np.ndarray
    """the part they belong to, ascending"""

    def resampled(self, settings: Resampling, purpose: str) -> Iterator[np.ndarray]:
        """Counts of each kind in every resample (draws × kinds), in blocks of draws."""
        random = settings.generator(purpose)
        first = np.flatnonzero(np.diff(self.part, prepend=self.part[0] - 1))
        groups = np.split(self.count, first[1:])
        n_block = max(1, _BLOCK_ENTRIES // len(self.count))
        for start in range(0, settings.draws, n_block):
            n = min(n_block, settings.draws - start)
            yield np.hstack([draw_counts(random, group, n) for group in groups])

    def halved(self, settings: Resampling, purpose: str) -> Iterator[np.ndarray]:
        """How many units of each kind fall to one of two equal sides (draws × kinds), in blocks."""
        random = settings.generator(purpose)
        n_block = max(1, _BLOCK_ENTRIES // len(self.count))
        for start in range(0, settings.draws, n_block):
            n = min(n_block, settings.draws - start)
            yield random.binomial(self.count, 0.5, size=(n, len(self.count)))


@dataclass(frozen=True, slots=True)
class MeanKinds:
    """Units told apart by their size and the sum of their items' values: all a mean needs."""

    kinds: Kinds
    size: np.ndarray
    total: np.ndarray
    score: str

    def means(self, count_rk: np.ndarray) -> np.ndarray:
        """The score of each resample."""
        first = [0]
        if self.score == "mean":
            first = list(np.flatnonzero(np.diff(self.kinds.part, prepend=self.kinds.part[0] - 1)))
        total_rp = np.add.reduceat(count_rk * self.total, first, axis=1)
        size_rp = np.add.reduceat(count_rk * self.size, first, axis=1)
        return np.asarray((total_rp / size_rp).mean(axis=1))


def mean_kinds(items: Items, value_n: np.ndarray) -> MeanKinds:
    """The kinds of units for a score that is a mean of item values."""
    unit_n = items.unit_codes()
    part_u = np.zeros(unit_n.max() + 1, np.intp)
    part_u[unit_n] = items.part_codes()
    size_u, total_u = np.bincount(unit_n), np.bincount(unit_n, value_n)
    first_k, kind_u = number_rows(part_u, size_u, total_u)
    kinds = Kinds(np.bincount(kind_u), part_u[first_k])
    return MeanKinds(kinds, size_u[first_k], total_u[first_k], items.score)


@dataclass(frozen=True, slots=True)
class CellKinds:
    """Units told apart by their cells; a cell is a distinct (part, target, prediction, ...)."""

    kinds: Kinds
    part: np.ndarray
    """of each cell"""
    columns: np.ndarray
    """cells × (target, prediction, ...)"""
    kind_of_entry: np.ndarray
    cell_of_entry: np.ndarray

    def weights(self, count_rk: np.ndarray) -> np.ndarray:
        """How often each cell occurs when each kind of unit occurs so often, per resample."""
        from scipy.sparse import coo_array  # slow to load, and most reports need none

        n_cells, n_kinds = len(self.part), len(self.kinds.count)
        if n_cells == n_kinds == len(self.cell_of_entry):  # each unit is one item
            return np.asarray(count_rk, np.float64)
        ones = np.ones(len(self.cell_of_entry))
        cells_in_kind = coo_array(
            (ones, (self.cell_of_entry, self.kind_of_entry)), shape=(n_cells, n_kinds)
        ).tocsr()
        return np.asarray((cells_in_kind @ count_rk.T).T)

    def values(
        self, counts: Iterator[np.ndarray], statistic: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """The statistic of every resample; of scores there are as many cells as items."""
        n = max(1, _BLOCK_ENTRIES // len(self.part))
        return np.concatenate(
            [
                statistic(self.weights(block[start : start + n]))
                for block in counts
                for start in range(0, len(block), n)
            ]
        )


def cell_kinds(items: Items, *predictions: np.ndarray) -> CellKinds:
    """The kinds of units for any score of targets and predictions."""
    columns = np.stack([items.target, *predictions], axis=1)
    part_n = items.part_codes()
    first_c, cell_n = number_rows(part_n, *columns.T)
    part_c, unit_n = part_n[first_c], items.unit_codes()
    if unit_n.max() + 1 == len(unit_n):  # each unit is one item: a kind is a cell
        each_c = np.arange(len(part_c))
        return CellKinds(
            Kinds(np.bincount(cell_n), part_c), part_c, columns[first_c], each_c, each_c
        )
    content = _contents(unit_n, cell_n)
    kinds = sorted(content)
    return CellKinds(
        Kinds(np.array([content[kind] for kind in kinds]), part_c[[kind[0] for kind in kinds]]),
        part_c,
        columns[first_c],
        np.repeat(np.arange(len(kinds)), [len(kind) for kind in kinds]),
        np.array([cell for kind in kinds for cell in kind]),
    )


def _contents(unit_n: np.ndarray, cell_n: np.ndarray) -> Counter[tuple[int, ...]]:
    """How many units have which cells."""
    order = np.lexsort((cell_n, unit_n))
    edges = np.flatnonzero(np.diff(unit_n[order])) + 1
    return Counter(tuple(cells.tolist()) for cells in np.split(cell_n[order], edges))


# --- multinomial counts ---


_FEW_KINDS, _FEW_UNITS = 100, 1000
_TABLE_BITS = 16
_LARGEST, _WORTH = 64, 2500
"""units of a kind up to which a table is used, and numbers for which it is worth making"""


def draw_counts(random: np.random.Generator, count_k: np.ndarray, n: int) -> np.ndarray:
    """`n` draws (rows) of the counts of kinds, each as many units as `count_k` has."""
    total = int(count_k.sum())
    if len(count_k) < _FEW_KINDS or total < _FEW_UNITS:
        return random.multinomial(total, count_k / total, size=n)
    share = 1 - 3 / math.sqrt(total)
    drawn_kn = _poisson(random, count_k, share, n)
    lacking_n = total - drawn_kn.sum(axis=0)
    over = np.flatnonzero(lacking_n < 0)  # three standard deviations away: one in 700
    drawn_kn[:, over] = random.multinomial(total, count_k / total, size=len(over)).T
    lacking_n[over] = 0
    kind_u = np.repeat(np.arange(len(count_k)), count_k)
    more = kind_u[random.integers(0, total, int(lacking_n.sum()))]
    np.add.at(drawn_kn.reshape(-1), more * n + np.repeat(np.arange(n), lacking_n), np.int32(1))
    return np.asarray(drawn_kn.T)


def _poisson(random: np.random.Generator, count_k: np.ndarray, share: float, n: int) -> np.ndarray:
    """Poisson counts (kinds × draws) with means `share * count_k`."""
    drawn_kn = np.empty((len(count_k), n), np.int32)
    for count in np.unique(count_k):
        mine = np.flatnonzero(count_k == count)
        if count > _LARGEST or len(mine) * n < _WORTH:
            drawn_kn[mine] = random.poisson(share * count, (len(mine), n))
            continue
        luck = np.frombuffer(random.bytes(2 * len(mine) * n), np.uint16)
        drawn_kn[mine] = _table(share * float(count)).take(luck).reshape(len(mine), n)
    return drawn_kn


def _table(mean: float) -> np.ndarray:
    """The Poisson count for each of 65,536 equally likely numbers."""
    size = 1 << _TABLE_BITS
    count = np.arange(int(mean + 12 * math.sqrt(mean) + 12))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(count[1:], 1)))])
    below = np.cumsum(np.exp(count * math.log(mean) - mean - log_factorial))
    edge = np.rint(below * size).astype(np.int64)
    edge[-1] = size
    return np.repeat(count.astype(np.int32), np.diff(edge, prepend=0))


# --- replicates: the scores of all resamples ---


_MANY_UNITS = 200


def replicate_scores(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling = DEFAULT
) -> np.ndarray:
    """Resampled scores (draws × models) from draws that all models share."""
    answers_mn = np.asarray(answers_mn)
    if not answers_mn.size:
        raise ValueError(f"answers have the shape {answers_mn.shape}: expected models × items.")
    if form_of(metric) and count_units(items) >= _MANY_UNITS:
        return _normal(items, answers_mn, metric, resampling)
    return _scored(items, answers_mn, metric, resampling)


def _normal(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    score_m, spread_mu = _spreads(items, answers_mn, metric)
    strength, axes = np.linalg.eigh((spread_mu @ spread_mu.T).astype(np.float64))
    root = axes * np.sqrt(np.maximum(strength, 0.0))
    luck = resampling.generator("interval").standard_normal((resampling.draws, len(score_m)))
    return np.asarray(score_m + luck @ root.T)


def _spreads(items: Items, answers_mn: np.ndarray, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Each model's score, and each unit's part of its spread (models × units, float32)."""
    unit_n = items.unit_codes()
    score_m = np.empty(len(answers_mn))
    spread_mu = np.empty((len(answers_mn), int(unit_n.max()) + 1), np.float32)
    is_by_class = form_of(metric) in ("recall", "f1")
    classes = read_classes(items, int(answers_mn.max())) if is_by_class else None
    share_n, part_n = item_share(items), items.part_codes()
    size_p = np.bincount(part_n)
    for model, answer_n in enumerate(answers_mn):
        if classes is not None:
            score_m[model], spread_n = class_spread(items, classes, answer_n, metric)
        else:
            value_n = np.asarray(item_values(metric, items.target, answer_n))
            score_m[model] = value_n @ share_n
            spread_n = (value_n - (np.bincount(part_n, value_n) / size_p)[part_n]) * share_n
        spread_mu[model] = np.bincount(unit_n, spread_n)
    return score_m, spread_mu


def _scored(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    cells = cell_kinds(items, *answers_mn)
    target = cells.columns[:, 0]
    scores = [
        weighted_score(items, metric, cells.part, target, answer) for answer in cells.columns.T[1:]
    ]
    blocks = [
        np.stack([score(weight) for score in scores], axis=1)
        for weight in map(cells.weights, cells.kinds.resampled(resampling, "interval"))
    ]
    return np.concatenate(blocks)


def replicate_mean(items: Items, value_n: np.ndarray, resampling: Resampling) -> np.ndarray:
    """Resampled scores where the score is a mean of item values."""
    kinds = mean_kinds(items, value_n)
    blocks = kinds.kinds.resampled(resampling, "interval")
    return np.concatenate([kinds.means(block) for block in blocks])


# --- replicates of recall and F1 ---


def replicate_classes(
    items: Items, prediction: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    """Resampled scores of a metric whose closed form is "recall" or "f1"."""
    is_f1 = form_of(metric) == "f1"
    if not is_f1:  # which wrong answer was given does not matter: fewer kinds to draw
        prediction = np.where(prediction == items.target, prediction, -1)
    cells = cell_kinds(items, prediction)
    sums, width = _sums(items, cells)
    replicates = []
    for count_rk in cells.kinds.resampled(resampling, "interval"):
        # Counts below 2^24 are exact in float32.
        total = sums @ np.ascontiguousarray(count_rk.T, np.float32)
        size, hits, answers = total.reshape(3, -1, width, total.shape[1]).astype(np.float64)
        whole = size + answers if is_f1 else size
        ratio = np.divide((1 + is_f1) * hits, whole, out=np.zeros(size.shape), where=size > 0)
        replicates.append((ratio.sum(axis=1) / (size > 0).sum(axis=1)).mean(axis=0))
    return np.concatenate(replicates)


def _sums(items: Items, cells: CellKinds) -> tuple[Any, int]:
    """(sizes, hits, answers of the classes) × kinds of units, and the classes of a part."""
    target, answer = cells.columns.T
    is_mean = items.score == "mean"
    as_items = Items(target, None, cells.part if is_mean else None, items.score)
    classes = read_classes(as_items, int(answer.max()))
    n = len(classes.size)
    answered = classes.answered(answer) - 1
    known = np.flatnonzero((answered >= 0) & (classes.size[answered] > 0))
    right = np.flatnonzero(target == answer)
    row = np.concatenate([classes.target, n + classes.target[right], 2 * n + answered[known]])
    cell = np.concatenate([np.arange(len(target)), right, known])
    per_cell = _ones(row, cell, (3 * n, len(target)))
    per_kind = _ones(
        cells.cell_of_entry, cells.kind_of_entry, (len(target), len(cells.kinds.count))
    )
    n_parts = int(cells.part.max()) + 1 if is_mean else 1
    return (per_cell @ per_kind).tocsr(), n // n_parts


def _ones(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array  # slow to load, and most reports need none

    return csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)


# --- any function of a list of items: weights, jackknife ---


def unit_weights(items: Items, resampling: Resampling) -> Iterator[np.ndarray]:
    """How often each item counts in every resample (draws × items), in blocks of draws."""
    unit_n = items.unit_codes()
    if not len(unit_n):
        return
    part_u = np.zeros(int(unit_n.max()) + 1, np.intp)
    part_u[unit_n] = items.part_codes()
    order = np.argsort(part_u, kind="stable")
    place_u = np.empty_like(order)
    place_u[order] = np.arange(len(order))
    kinds = Kinds(np.ones(len(order), np.int64), part_u[order])
    n_rows = max(1, _BLOCK_ENTRIES // len(unit_n))
    for count_ru in kinds.resampled(resampling, "interval"):
        for start in range(0, len(count_ru), n_rows):
            yield count_ru[start : start + n_rows][:, place_u[unit_n]]


def unit_blocks(items: Items, n_blocks: int, resampling: Resampling) -> np.ndarray:
    """The block of each item: units are dealt evenly, in an order drawn for this task."""
    unit_n = items.unit_codes()
    n_units = int(unit_n.max(initial=-1)) + 1
    block_u = np.empty(n_units, np.intp)
    block_u[resampling.generator("blocks").permutation(n_units)] = np.arange(n_units) % n_blocks
    return np.asarray(block_u[unit_n])


def jackknife_limits(
    value: float, without_b: np.ndarray, level: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Student's limits from the scores without each block in turn, within the bounds."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    n = len(without_b)
    error = math.sqrt((n - 1) / n * float(((without_b - without_b.mean()) ** 2).sum()))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    return min(max(value - half, bounds[0]), value), max(min(value + half, bounds[1]), value)

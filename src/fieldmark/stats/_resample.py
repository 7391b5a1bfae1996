"""What would the score have been, had other units been met?

Units are drawn with replacement, within each part. Units with the same content are
interchangeable, so a resample is one multinomial draw of how often each *kind* of unit occurs:
the order of the items cannot matter, and a 0/1 mean without clusters costs two numbers a draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fieldmark import draws
from fieldmark.stats._counts import draw_counts
from fieldmark.stats._items import Items, number_rows

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
            yield np.hstack([draw_counts(random, each, n) for each in groups])

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
        Kinds(np.array([content[each] for each in kinds]), part_c[[each[0] for each in kinds]]),
        part_c,
        columns[first_c],
        np.repeat(np.arange(len(kinds)), [len(each) for each in kinds]),
        np.array([cell for each in kinds for cell in each]),
    )


def _contents(unit_n: np.ndarray, cell_n: np.ndarray) -> Counter[tuple[int, ...]]:
    """How many units have which cells."""
    order = np.lexsort((cell_n, unit_n))
    edges = np.flatnonzero(np.diff(unit_n[order])) + 1
    return Counter(tuple(each.tolist()) for each in np.split(cell_n[order], edges))

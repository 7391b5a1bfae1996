"""Between which values does the number of an aggregation lie, 19 times out of 20?

A bootstrap over documents, or over the units they belong to, with as many resamples as there is
time for. Not every function that a task brings can be resampled: some count (a sum over twice the
documents is twice the number), some look documents up by their id (a document that was drawn twice
counts once), some want pairs to be complete. These are found out by asking about documents that
come twice, and get their interval by leaving out blocks of documents in turn; where values carry an
id that several share, blocks hold all that share it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.ask.calls import Caller, copies, is_same, numbers_in
from fieldmark.stats import (
    Items,
    Resampling,
    jackknife_limits,
    percentile_limits,
    unit_blocks,
    unit_weights,
)

LADDER = (2000, 1000, 500, 200, 100)
"""numbers of resamples: rungs, so that a machine's mood does not change an interval"""
MOST_BLOCKS, LEAST_BLOCKS = 40, 10
_NO_SPREAD = "every resample gives the same number: the spread is not known"
_ANY = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Limits:
    """An interval, or why there is none."""

    low: float | None = None
    high: float | None = None
    method: str = ""
    n_units: int | None = None
    warning: str = ""


class LimitsOf:
    """The limits of each number, by its key; `other` are those of all that are not listed."""

    def __init__(self, other: Limits, listed: Mapping[str, Limits] | None = None) -> None:
        self.other, self.listed = other, listed or {}

    def __getitem__(self, key: str) -> Limits:
        return self.listed.get(key, self.other)


def weighted_limits(
    value: float,
    score: Callable[[np.ndarray], np.ndarray],
    items: Items,
    resampling: Resampling,
    bounds: tuple[float, float],
    seconds: float,
) -> Limits:
    """For a score that takes resampling weights."""
    n_units = _n_units(items)
    if n_units < 2:
        return Limits(n_units=n_units, warning="one unit only: no interval")
    began = time.perf_counter()
    score(np.ones((20, len(items.target))))
    n = _rung(seconds * 20 / max(1e-9, time.perf_counter() - began))
    if not n:
        return Limits(n_units=n_units, warning="too slow to resample: no interval")
    weights = unit_weights(items, _with_draws(resampling, n))
    replicate_r = np.concatenate([score(each) for each in weights])
    return _percentiles(value, replicate_r, items, resampling, bounds)


def function_limits(
    caller: Caller, items: list[Any], grouping: Items, resampling: Resampling, seconds: float
) -> LimitsOf:
    """For a function of a list: the limits of every number it gives."""
    n_units = _n_units(grouping)
    if n_units < 2:
        return LimitsOf(Limits(n_units=n_units, warning="one unit only: no interval"))
    with caller.again() as function:
        try:
            asked = _Asked(function, items, grouping, resampling, seconds)
            missing = Limits(n_units=n_units, warning="no interval: a second call does not give it")
            return LimitsOf(missing, asked.limits())
        except FieldmarkError as error:
            text = f"no interval, since other documents cannot be asked about: {error}"
            return LimitsOf(Limits(n_units=n_units, warning=text))


class _Asked:
    """A function, and what was found out about it."""

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        items: list[Any],
        grouping: Items,
        resampling: Resampling,
        seconds: float,
    ) -> None:
        self.function, self.items, self.grouping = function, items, grouping
        self.resampling, self.seconds = resampling, seconds
        self.pick: Callable[[Iterable[int]], list[Any]] = lambda places: [items[i] for i in places]
        self.every: np.ndarray = np.arange(len(items))
        self.values = self._values_and_cost()

    def _values_and_cost(self) -> dict[str, float]:
        """A second call: the first may have imported much. Notices values that it changes."""
        fresh = copies(self.items)
        given = fresh(self.every)
        before = repr(given)
        began = time.perf_counter()
        found = numbers_in(self.function(given))
        self.cost = max(1e-6, time.perf_counter() - began)
        if repr(given) != before:
            self.pick = fresh
        return found

    def ask(self, place_n: np.ndarray) -> dict[str, float]:
        return numbers_in(self.function(self.pick(place_n.tolist())))

    def limits(self) -> dict[str, Limits]:
        n = _rung(self.seconds / self.cost)
        if not n:
            return self._without_blocks([self.grouping, *self._shared()])
        drawn = self._resampled(n) if self._may_come_twice() else None
        if drawn is not None:
            return self._all(drawn)
        return self._without_blocks([*self._shared(), self.grouping])

    def _shared(self) -> list[Items]:
        """Documents that share an id, where the task does not say what is independent."""
        if _n_units(self.grouping) < len(self.items):
            return []
        shared = _shared_id(self.items)
        return [] if shared is None else [Items(self.grouping.target, unit=shared)]

    def _may_come_twice(self) -> bool:
        """Is it a function of shares of documents, which resamples change?"""
        try:
            if not is_same(self.ask(np.tile(self.every, 2)), self.values):
                return False
            random = self.resampling.generator("twice")
            halves = [np.sort(random.permutation(self.every)[::2]) for _ in range(3)]
            added = [self.ask(np.concatenate([self.every, half])) for half in halves]
            if not all(is_same(each, self.values) for each in added):
                return True
            return all(is_same(self.ask(half), self.values) for half in halves)
        except FieldmarkError:
            return False

    def _resampled(self, n: int) -> list[dict[str, float]] | None:
        """The numbers of each resample; None where more than one in twenty fails."""
        drawn: list[dict[str, float]] = []
        n_failed, late = 0, time.perf_counter() + 2 * self.seconds
        for weight in self._weights(n):
            try:
                drawn.append(self.ask(np.repeat(self.every, weight)))
            except FieldmarkError:
                n_failed += 1
                if n_failed > n / 20:
                    return None
            if time.perf_counter() > late:  # resamples take longer than the call that was timed
                return drawn[: _rung(len(drawn))] or None
        return drawn

    def _weights(self, n: int) -> Iterator[np.ndarray]:
        for block in unit_weights(self.grouping, _with_draws(self.resampling, n)):
            yield from block

    def _all(self, drawn: Sequence[Mapping[str, float]]) -> dict[str, Limits]:
        found = {}
        for key, value in self.values.items():
            replicate_r = np.array([each.get(key, math.nan) for each in drawn])
            found[key] = _percentiles(value, replicate_r, self.grouping, self.resampling, _ANY)
        return found

    def _without_blocks(self, groupings: Sequence[Items]) -> dict[str, Limits]:
        """By the first grouping whose blocks can be left out."""
        most = min(MOST_BLOCKS, int(self.seconds / self.cost))
        if most < LEAST_BLOCKS:
            text = f"no interval: one call takes {self.cost:.1f} s, too long for resamples"
            none = Limits(n_units=_n_units(self.grouping), warning=text)
            return dict.fromkeys(self.values, none)
        first: FieldmarkError | None = None
        for grouping in groupings:
            try:
                return self._jackknifed(grouping, min(most, _n_units(grouping)))
            except FieldmarkError as error:
                first = first or error
        assert first is not None
        raise first

    def _jackknifed(self, grouping: Items, n_blocks: int) -> dict[str, Limits]:
        block_n = unit_blocks(grouping, n_blocks, self.resampling)
        without = [self.ask(np.flatnonzero(block_n != each)) for each in range(n_blocks)]
        found = {}
        for key, value in self.values.items():
            value_b = np.array([each.get(key, math.nan) for each in without])
            found[key] = _jackknife(value, value_b, grouping, self.resampling.level)
        return found


def _shared_id(items: Sequence[Any]) -> np.ndarray | None:
    """The finest key of mappings that a few values share, where there are enough of its groups."""
    if not all(isinstance(each, Mapping) for each in items):
        return None
    best: tuple[int, np.ndarray] | None = None
    for key in set(items[0]).intersection(*items[1:]):
        column = [each[key] for each in items]
        if not all(isinstance(each, int | str) and not isinstance(each, bool) for each in column):
            continue
        _, code_n = np.unique([str(each) for each in column], return_inverse=True)
        n = int(code_n.max()) + 1
        if LEAST_BLOCKS <= n <= len(items) / 1.5 and (best is None or n > best[0]):
            best = n, code_n
    return None if best is None else best[1]


def _percentiles(
    value: float,
    replicate_r: np.ndarray,
    items: Items,
    resampling: Resampling,
    bounds: tuple[float, float],
) -> Limits:
    n_units, n_asked = _n_units(items), len(replicate_r)
    replicate_r = replicate_r[np.isfinite(replicate_r)]
    if not math.isfinite(value) or len(replicate_r) < 0.9 * n_asked:
        text = "no interval: the number is not defined for many resamples"
        return Limits(n_units=n_units, warning=text)
    width = bounds[1] - bounds[0]
    if not math.isfinite(width) and np.ptp(replicate_r) <= 1e-12 * max(1.0, abs(value)):
        return Limits(n_units=n_units, warning=_NO_SPREAD)
    scale = width if math.isfinite(width) else 1.0
    scaled = (bounds[0] / scale, bounds[1] / scale)
    low, high = percentile_limits(value / scale, replicate_r / scale, items, resampling, scaled)
    method = "bootstrap" if n_asked >= LADDER[0] else f"bootstrap, {n_asked} resamples"
    return Limits(low * scale, high * scale, method, n_units)


def _jackknife(value: float, value_b: np.ndarray, items: Items, level: float) -> Limits:
    n_units = _n_units(items)
    if not (math.isfinite(value) and np.isfinite(value_b).all()):
        text = "no interval: the number is not defined without some documents"
        return Limits(n_units=n_units, warning=text)
    if np.ptp(value_b) <= 1e-12 * max(1.0, abs(value)):
        return Limits(n_units=n_units, warning=_NO_SPREAD)
    low, high = jackknife_limits(value, value_b, level, _ANY)
    return Limits(low, high, f"jackknife, {len(value_b)} blocks", n_units)


def _rung(n_affordable: float) -> int:
    """The most resamples of the ladder that there is time for; 0 for none."""
    return next((each for each in LADDER if each <= n_affordable), 0)


def _with_draws(resampling: Resampling, n: int) -> Resampling:
    return Resampling(n, resampling.level, resampling.seed, resampling.task)


def _n_units(items: Items) -> int:
    return int(items.unit_codes().max(initial=-1)) + 1

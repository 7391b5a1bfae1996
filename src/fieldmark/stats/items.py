"""Items, clusters (units) and parts: which items belong together, and how do they make a score?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

LEVEL = 0.95
"""share of cases in which an interval holds the truth; two models are told apart where p is less
than the rest"""
Metric = Callable[..., float]
"""f(target, prediction, weight) -> float"""


@dataclass(frozen=True, slots=True)
class Items:
    """The items of one score; every array has one entry per item."""

    target: np.ndarray
    """whole numbers from 0 up"""
    unit: np.ndarray | None = None
    """what is independent; None, or None for an item, means the item itself"""
    part: np.ndarray | None = None
    """parts are fixed (NeWT's questions, the traits of a fish); a unit asked about in several is
    still one unit"""
    score: Literal["pooled", "mean"] = "pooled"
    """one score over all items, or the mean of the parts' scores"""
    repeat: np.ndarray | None = None
    """which training, or which round of answers; the score is the mean of the repeats' scores"""

    def __post_init__(self) -> None:
        for name in ("unit", "part", "repeat"):
            given = getattr(self, name)
            if given is not None and np.shape(given) != np.shape(self.target):
                raise ValueError(
                    f"{name} has the shape {np.shape(given)}, target {np.shape(self.target)}: "
                    "expected one entry per item in each."
                )
        if self.score not in ("pooled", "mean"):
            raise ValueError(f"score is {self.score!r}: expected 'pooled' or 'mean'.")

    def part_codes(self) -> np.ndarray:
        """A number per item, 0 up, in the order the parts sort."""
        if self.part is None:
            return np.zeros(len(self.target), np.intp)
        return _number_values(np.asarray(self.part))

    def unit_codes(self) -> np.ndarray:
        """A number per item, 0 up, equal for items of one unit, whatever their part and repeat."""
        return _number_units(self.unit, len(self.target))

    def repeat_codes(self) -> np.ndarray:
        """A number per item, 0 up, in the order the repeats sort."""
        if self.repeat is None:
            return np.zeros(len(self.target), np.intp)
        return _number_values(np.asarray(self.repeat))

    def strata(self) -> np.ndarray:
        """A number per item, 0 up: its repeat and, where the score is a mean of parts, its part."""
        if self.score == "pooled":
            return self.repeat_codes()
        return number_rows(self.repeat_codes(), self.part_codes())[1]


def estimate(items: Items, prediction: np.ndarray, metric: Metric) -> float:
    """The score itself: over all items or the mean over parts, and the mean over repeats."""
    target, prediction = np.asarray(items.target), np.asarray(prediction)
    if not len(target):
        return float(metric(target, prediction, np.ones(0)))
    stratum_n = items.strata()
    first_s = np.zeros(int(stratum_n.max()) + 1, np.intp)
    first_s[stratum_n] = items.repeat_codes()
    value_s = [
        metric(target[member_n], prediction[member_n], np.ones(len(member_n)))
        for member_n in members(stratum_n)
    ]
    return float((np.bincount(first_s, value_s) / np.bincount(first_s)).mean())


def members(code_n: np.ndarray) -> list[np.ndarray]:
    """The places of each code, 0 up."""
    order = np.argsort(code_n, kind="stable")
    edges = np.flatnonzero(np.diff(code_n[order])) + 1
    return np.split(order, edges) if len(order) else []


def item_values(metric: Metric, target: np.ndarray, prediction: np.ndarray) -> np.ndarray | None:
    """What each item adds to a metric that is a mean over items; None for any other metric."""
    if getattr(metric, "kind", "other") != "mean":
        return None
    target, prediction = np.asarray(target), np.asarray(prediction)
    if getattr(metric, "closed_form", "") == "right":
        return np.asarray(target == prediction, np.float64)
    first_c, cell_n = number_rows(target, prediction)
    value_c = np.array([metric(target[[c]], prediction[[c]], np.ones(1)) for c in first_c])
    return np.asarray(value_c[cell_n], np.float64)


def number_rows(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each distinct row occurs first, and the number of every row, 0 up as the rows sort."""
    code_n = _number_values(np.asarray(columns[0]))
    for column in columns[1:]:
        next_n = _number_values(np.asarray(column))
        code_n = _number_values(code_n * (int(next_n.max(initial=0)) + 1) + next_n)
    first_c = np.zeros(int(code_n.max(initial=-1)) + 1, np.intp)
    first_c[code_n[::-1]] = np.arange(len(code_n))[::-1]  # the first of equal rows is written last
    return first_c, code_n


def _number_values(column: np.ndarray) -> np.ndarray:
    """As the inverse of `np.unique`, without sorting whole numbers that lie close together."""
    if column.dtype.kind not in "iu" or not len(column):
        return np.unique(column, return_inverse=True)[1]
    least = int(column.min())
    width = int(column.max()) - least + 1
    if width > 16 * len(column) + 1000:
        return np.unique(column, return_inverse=True)[1]
    is_used = np.zeros(width, bool)
    place_n = column.astype(np.int64) - least
    is_used[place_n] = True
    return np.asarray((np.cumsum(is_used) - 1)[place_n])


def _number_units(unit: np.ndarray | None, n: int) -> np.ndarray:
    if unit is None:
        return np.arange(n)
    unit = np.asarray(unit)
    if unit.dtype.kind in "iu" and n:
        return _number_values(unit)
    is_missing = np.asarray(unit != unit)  # NaN
    if unit.dtype == object:
        is_missing = np.array([name is None or name != name for name in unit], dtype=bool)
    code = np.empty(n, np.intp)
    code[is_missing] = np.arange(is_missing.sum())
    given = unit[~is_missing]
    given = given.astype(str) if unit.dtype == object else given
    code[~is_missing] = np.unique(given, return_inverse=True)[1] + is_missing.sum()
    return code


def code_labels(part: np.ndarray, *labels: np.ndarray) -> list[np.ndarray]:
    """Label names to whole numbers, the same for the same name in every column given.

    A label of one part is never a label of another, so that pooled classes stay apart.

    >>> [column.tolist() for column in code_labels(np.array(["p", "q"]), np.array(["a", "a"]))]
    [[0, 1]]
    """
    names = [
        np.char.add(np.char.add(part.astype(str), "\0"), label.astype(str)) for label in labels
    ]
    _, code = np.unique(np.concatenate(names), return_inverse=True)
    return list(np.split(code.astype(np.int64), len(labels)))


def count_units(items: Items) -> int:
    """Independent units among the photos."""
    return int(items.unit_codes().max(initial=-1)) + 1

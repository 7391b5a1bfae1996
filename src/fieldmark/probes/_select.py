"""Model selection: folds, hold-out and grids. Which setting is best on rows that were held out?

The score is the metric of that name, so that `select_by: macro_f1` and `metric: macro_f1` are one
formula. What a reader should know of a search (a choice at the edge of its grid, classes that some
folds lack) is told in sentences, which a probe keeps as `fit_notes_`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fieldmark import draws
from fieldmark.errors import UsageError
from fieldmark.metrics import load_metric

SELECT_BY = ("accuracy", "macro_accuracy", "macro_f1")
ONE_CLASS = "one class only: nothing to learn, so every answer is this class"
NOTHING_HELD_OUT = "too few images to hold any out: no search, the first setting listed"
LEAST_GRID = 3
"""values of a grid, below which every choice is at an edge"""
_POWER = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*([+-]?\d+)")
_MOST_ALPHAS = 1000

Scorer = Callable[[np.ndarray, np.ndarray], float]
Splits = Sequence[tuple[np.ndarray, np.ndarray]]
"""(training rows, held-out rows) of each fold"""


def load_scorer(select_by: str) -> Scorer:
    """The score of (true, predicted) class numbers."""
    return load_metric(select_by)


# --- notes about a search


def edge_notes(name: str, grid: Sequence[float], score: np.ndarray) -> list[str]:
    """Says that the best value is the smallest or the largest of its grid, if it is.

    Not where the next value does as well: then nothing says that one beyond the edge is better.

    >>> edge_notes("alpha", [1, 10, 100], np.array([0.5, 0.6, 0.7]))
    ['alpha = 100 is the largest of its grid: a larger one may be better']
    """
    best = grid[int(score.argmax())]
    value, first_at = np.unique(grid, return_index=True)
    score = score[first_at]
    if len(value) < LEAST_GRID:
        return []
    if best == value[-1] and score[-1] > score[-2]:
        return [f"{name} = {best:g} is the largest of its grid: a larger one may be better"]
    if best == value[0] and score[0] > score[1]:
        return [f"{name} = {best:g} is the smallest of its grid: a smaller one may be better"]
    return []


def rare_notes(code_n: np.ndarray, least: int, what: str) -> list[str]:
    """Says how many classes have fewer rows than a search needs of each, and what comes of it."""
    count_c = np.bincount(code_n)
    n_rare = int((count_c < least).sum())
    if not n_rare:
        return []
    have = "has" if n_rare == 1 else "have"
    few = "one image" if least == 2 else f"fewer than {least} images"
    return [f"{n_rare} of {len(count_c)} classes {have} {few}: {what}"]


# --- units: bursts, animals, cameras stay together


def read_units(groups: Any, n_rows: int) -> np.ndarray | None:
    """A number for each row, equal within a unit; None where every row is a unit of its own."""
    if groups is None:
        return None
    names, unit_n = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    if len(unit_n) != n_rows:
        raise UsageError(f"groups has {len(unit_n)} entries for {n_rows} rows: expected one each.")
    return None if len(names) == n_rows else unit_n


def unit_classes(code_n: np.ndarray, unit_n: np.ndarray | None) -> np.ndarray:
    """The commonest class of each unit, the smallest number among equals; of rows without units,
    their own.
    """
    if unit_n is None:
        return code_n
    pair_p, count_p = np.unique(np.stack([unit_n, code_n]), axis=1, return_counts=True)
    order_p = np.lexsort((-pair_p[1], count_p, pair_p[0]))  # a unit's winner stands last
    last_u = np.cumsum(np.bincount(pair_p[0])) - 1
    return np.asarray(pair_p[1][order_p[last_u]])


# --- stratified folds


def usable_folds(n_folds: int, code_n: np.ndarray) -> int:
    """At most as many folds as the second-largest class has rows; below 2 nothing can be searched.

    For two classes that is the smaller one: every fold then trains and tests on both. In a
    long-tailed set a class with a single image must not cost all the others their search.
    """
    sizes = np.sort(np.bincount(code_n))
    return int(min(n_folds, sizes[-2])) if len(sizes) > 1 else 1


def stratified(
    folds: int, code_n: np.ndarray, unit_n: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(Training, held-out) rows: the splits scikit-learn makes for `cv=folds`, of whole units.

    Its own search looks through all labels once for each class: seconds for 10,000 classes. Classes
    stand in the order in which they first occur, their rows in the order of the data. Going round
    the folds says how many rows of a class each fold gets; the class's first rows then go to the
    first fold, and so on.
    """
    if unit_n is not None:
        splits = stratified(folds, unit_classes(code_n, unit_n))
        return [_rows_of_units(held, unit_n) for _, held in splits]
    n_rows = len(code_n)
    first_c = np.full(int(code_n.max()) + 1, n_rows)
    first_c[code_n[::-1]] = np.arange(n_rows)[::-1]
    class_n = np.argsort(np.argsort(first_c, kind="stable"))[code_n]
    order = np.argsort(class_n, kind="stable")
    fold_n = np.empty(n_rows, np.intp)
    fold_n[order] = np.sort(class_n[order] * folds + np.arange(n_rows) % folds) % folds
    return [
        (np.flatnonzero(fold_n != fold), np.flatnonzero(fold_n == fold)) for fold in range(folds)
    ]


def fold_notes(n_folds: int, used: int, code_n: np.ndarray) -> list[str]:
    """What a person should know about the folds of a search."""
    if used < 2:
        return ["too few images to hold any out: no search, the default setting"]
    fewer = [f"{used} folds instead of {n_folds}: too few images"] if used < n_folds else []
    return fewer + rare_notes(code_n, used, "not in every fold")


# --- one hold-out set


def hold_out(
    code_n: np.ndarray, share: float, seed: int, unit_n: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and rows to judge by, each class in its share; units stay whole.

    Of each class that has two rows (units) at least one is held out and at least one is kept.
    """
    if unit_n is not None:
        _, held_u = hold_out(unit_classes(code_n, unit_n), share, seed)
        rows, _ = _rows_of_units(held_u, unit_n)
        lost = np.isin(code_n, np.setdiff1d(code_n, code_n[rows]))
        return _rows_of_units(np.setdiff1d(held_u, unit_n[lost]), unit_n)
    order_n = draws.generator(seed, "holdout").permutation(len(code_n))
    order_n = order_n[np.argsort(code_n[order_n], kind="stable")]
    count_c = np.bincount(code_n)
    wanted_c = np.maximum(np.rint(share * count_c), 1).astype(np.intp)
    held_c = np.minimum(wanted_c, np.maximum(count_c - 1, 0))
    start_c = np.cumsum(count_c) - count_c
    code_o = code_n[order_n]
    is_held_o = np.arange(len(code_n)) - start_c[code_o] < held_c[code_o]
    return np.sort(order_n[~is_held_o]), np.sort(order_n[is_held_o])


def _rows_of_units(held_u: np.ndarray, unit_n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all other units, and of these."""
    is_held_n = np.isin(unit_n, held_u)
    return np.flatnonzero(~is_held_n), np.flatnonzero(is_held_n)


def holdout_notes(code_n: np.ndarray, score_s: np.ndarray) -> list[str]:
    """What a person should know of a search: classes without a judge, settings that diverged."""
    n_diverged = int(np.isneginf(score_s).sum())
    lost = [f"{n_diverged} of {len(score_s)} settings diverged"] if n_diverged else []
    return rare_notes(code_n, 2, "none of them held out") + lost


# --- values of a grid, as a file gives them


def parse_numbers(probe: str, name: str, value: Any, is_zero_ok: bool = False) -> list[float]:
    """A number or a list of numbers, in the order given.

    >>> parse_numbers("linear", "learning_rates", [1e-3, "3e-4"])
    [0.001, 0.0003]
    """
    entries = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    try:
        numbers = [float("nan") if isinstance(entry, bool) else float(entry) for entry in entries]
    except (TypeError, ValueError):
        numbers = []
    is_good = all(0 <= number < math.inf and (number > 0 or is_zero_ok) for number in numbers)
    if not (numbers and is_good):
        bound = "from 0 up" if is_zero_ok else "above 0"
        raise UsageError(
            f"probe {probe!r}: {name} is {value!r}, expected a number {bound} or a list of them."
        )
    return numbers


def parse_alphas(value: Any) -> list[float]:
    """The regularisation strengths of `alphas: [2^-15 .. 2^10]`, in the order they were written.

    A number, a power `2^-3`, a range of powers of one base (both ends included), or a list of
    those.

    >>> parse_alphas(["2^-1 .. 2^2", 10])
    [0.5, 1.0, 2.0, 4.0, 10.0]
    """
    entries = value.strip().strip("[]").split(",") if isinstance(value, str) else value
    if isinstance(entries, (int, float)):
        entries = [entries]
    try:
        alphas = [alpha for entry in entries for alpha in _parse_entry(entry)]
    except TypeError as error:
        raise _unreadable(value) from error
    if not alphas:
        raise UsageError("alphas is empty: expected at least one number, or `[2^-15 .. 2^10]`.")
    return alphas


def _parse_entry(entry: Any) -> list[float]:
    if isinstance(entry, bool):
        raise _unreadable(entry)
    if not isinstance(entry, str):
        return [_positive(float(entry), entry)]
    ends = [_parse_power(end, entry) for end in entry.split("..")]
    if len(ends) == 1:
        base, exponent = ends[0]
        return [_positive(base**exponent, entry)]
    if len(ends) != 2 or ends[0][0] != ends[1][0] or ends[0][0] == 1:
        raise _unreadable(entry)
    (base, least), (_, most) = ends
    if not least <= most < least + _MOST_ALPHAS:
        raise UsageError(f"alphas {entry!r} runs from high to low: write the smaller power first.")
    return [_positive(base**exponent, entry) for exponent in range(least, most + 1)]


def _parse_power(text: str, entry: str) -> tuple[float, int]:
    power = _POWER.fullmatch(text.strip())
    if power:
        return float(power[1]), int(power[2])
    try:
        number = float(text)
    except ValueError:
        raise _unreadable(entry) from None
    if ".." in entry:
        raise _unreadable(entry)
    return number, 1


def _positive(alpha: float, entry: Any) -> float:
    if not (alpha > 0 and math.isfinite(alpha)):
        raise UsageError(f"alphas contains {entry!r}: expected finite numbers above 0.")
    return alpha


def _unreadable(entry: Any) -> UsageError:
    return UsageError(
        f"alphas contains {entry!r}: expected numbers, powers as 2^-3, or a range `2^-15 .. 2^10`."
    )

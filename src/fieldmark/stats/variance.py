"""Variance components: how much of a score's spread is the test images' luck, or the training's?

A model fitted R times on other training draws and tested on the same items leaves a table of
repeats × items. Both are samples, crossed with each other (random effects): the variance of a score
is that of its items plus that of its trainings, and an interval must hold both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class VarianceParts:
    """The mean over repeats, and where its spread comes from."""

    value: float
    low: float
    high: float
    """limits that hold both spreads"""
    test_sd: float
    """spread of a score over other test sets of this size"""
    training_sd: float
    """spread of the score of one training over other trainings, same test set; NaN for one"""
    n_repeats: int
    n_units: int

    @property
    def words(self) -> str:
        """One sentence for a table's note."""
        if self.n_repeats < 2:
            return (
                f"one training: ±{self.test_sd:.3f} from the test items; "
                "the training's own spread is not known"
            )
        larger = "test items" if self.test_sd >= self.training_sd else "training"
        return (
            f"standard deviation ±{self.test_sd:.3f} from the test items ({self.n_units} units), "
            f"±{self.training_sd:.3f} from the training ({self.n_repeats} repeats): "
            f"mostly the {larger}"
        )


def variance_parts(
    values_ri: ArrayLike, unit: np.ndarray | None = None, level: float = 0.95
) -> VarianceParts:
    """Splits the spread of a mean score over repeats (rows) × items (columns).

    `values_ri`: what each item adds to the score (right or wrong, a precision, ...). `unit`: whole
    numbers, equal for items that are not independent. A part estimated below 0 counts as 0.
    """
    value_ru = _by_unit(np.asarray(values_ri, np.float64), unit)
    n_repeats, n_units = value_ru.shape
    value = float(value_ru.mean())
    of_repeat, of_unit = value_ru.mean(axis=1), value_ru.mean(axis=0)
    rest = value_ru - of_repeat[:, None] - of_unit[None] + value
    freedom = np.array([n_units - 1, n_repeats - 1, (n_units - 1) * (n_repeats - 1)], float)
    squares = np.array(
        [
            n_repeats * ((of_unit - value) ** 2).sum(),
            n_units * ((of_repeat - value) ** 2).sum(),
            (rest**2).sum(),
        ]
    )
    mean_square = np.divide(squares, freedom, out=np.zeros(3), where=freedom > 0)
    units, repeats, noise = mean_square
    test = max(0.0, (units - noise) / (n_repeats * n_units))
    training = repeats / n_units if n_repeats > 1 else math.nan
    of_mean = max(test + (0.0 if n_repeats < 2 else training / n_repeats), 0.0)
    half = _quantile(mean_square, freedom, level) * math.sqrt(of_mean)
    return VarianceParts(
        value, value - half, value + half, math.sqrt(test), math.sqrt(training), n_repeats, n_units
    )


def _by_unit(value_ri: np.ndarray, unit: np.ndarray | None) -> np.ndarray:
    """One column per unit, scaled so that their mean is the mean over items."""
    if value_ri.ndim != 2 or not value_ri.size:
        raise ValueError(f"values have the shape {value_ri.shape}: expected repeats × items.")
    if unit is None:
        return value_ri
    code_i = np.unique(np.asarray(unit), return_inverse=True)[1]
    if len(code_i) != value_ri.shape[1]:
        raise ValueError(
            f"unit has {len(code_i)} entries, values {value_ri.shape[1]} items: expected as many."
        )
    total_ru = np.stack([np.bincount(code_i, row) for row in value_ri])
    return np.asarray(total_ru * (total_ru.shape[1] / value_ri.shape[1]))


def _quantile(mean_square: np.ndarray, freedom: np.ndarray, level: float) -> float:
    """Student's t with Satterthwaite's degrees of freedom of units + repeats - noise."""
    from scipy.special import stdtrit  # slow to load, and most reports need none

    is_used = freedom > 0
    total = float(mean_square @ np.array([1.0, 1.0, -1.0]))
    spread = float((mean_square[is_used] ** 2 / freedom[is_used]).sum())
    least = float(freedom[:2][freedom[:2] > 0].min(initial=math.inf))
    if not math.isfinite(least):
        return 0.0
    effective = max(1.0, total**2 / spread) if spread > 0 and total > 0 else least
    return float(stdtrit(effective, (1 + level) / 2))

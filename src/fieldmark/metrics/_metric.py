"""Metric (the contract): a function of targets and predictions, and what a reader must know."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, cast

if TYPE_CHECKING:
    import numpy as np

Direction = Literal["up", "down"]
Kind = Literal["mean", "other"]
Uses = Literal["prediction", "score", "whole", "kinds", "value"]
"""what takes the place of predictions; see the package's docstring"""
ClosedForm = Literal["", "right", "recall", "f1"]
"""the share right, or the mean over the classes in the truth of recall or of F1"""


class Metric(Protocol):
    """A function of targets and predictions, and what a reader must know of it."""

    title: str
    direction: Direction
    kind: Kind
    bounds: tuple[float, float]
    takes_many: bool
    uses: Uses
    closed_form: ClosedForm

    def __call__(
        self, target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None
    ) -> float: ...


def metric(
    title: str,
    *,
    direction: Direction = "up",
    kind: Kind = "other",
    bounds: tuple[float, float] = (-math.inf, math.inf),
    takes_many: bool = False,
    uses: Uses = "prediction",
    closed_form: ClosedForm = "",
) -> Callable[[Callable[..., float]], Metric]:
    """Says of a function what a reader must know of it.

    `takes_many`: the weights may be a matrix, one row per resample, and then it gives one value
    per row; intervals are much faster so. `closed_form`: which formula it computes, where that has
    a shortcut for comparing many models.

    >>> @metric("error rate", direction="down", kind="mean", bounds=(0, 1))
    ... def error_rate(target, prediction, weight=None):
    ...     return float(np.average(target != prediction, weights=weight))
    >>> error_rate.direction
    'down'
    """

    def describe(function: Callable[..., float]) -> Metric:
        described = cast(Metric, function)
        described.title, described.direction = title, direction
        described.kind, described.bounds = kind, bounds
        described.takes_many, described.closed_form = takes_many, closed_form
        described.uses = uses
        return described

    return describe

"""How sure is a number, and do two of them differ?

Items that share a unit (burst, camera, individual, observation) are one draw from the world, so
units are resampled, never single frames. Every score has an interval that contains it; two models
are compared on the same items with the same draws. The tests repeat the simulation behind each
choice. A metric is any function `f(target, prediction, weight) -> float`; its attributes `kind`,
`bounds` and `direction` are used where it has them.
"""

from __future__ import annotations

from fieldmark.stats._interval import Interval, bootstrap, interval, wilson
from fieldmark.stats._items import Items, code_labels, estimate
from fieldmark.stats._paired import Difference, Ties, paired_difference, ties_with_best
from fieldmark.stats._resample import Resampling

__all__ = [
    "Difference",
    "Interval",
    "Items",
    "Resampling",
    "Ties",
    "bootstrap",
    "code_labels",
    "estimate",
    "interval",
    "paired_difference",
    "ties_with_best",
    "wilson",
]

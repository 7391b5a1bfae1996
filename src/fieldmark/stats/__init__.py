"""Statistics: how sure is a number, and do two of them differ?

Items that share a unit (burst, camera, individual, observation) are one draw from the world, so
units are resampled, never single frames. Every score has an interval that contains it; two models
are compared on the same items with the same draws. The tests repeat the simulation behind each
choice. A metric is any function `f(target, prediction, weight) -> float`; its attributes `kind`,
`bounds`, `direction` and `closed_form` are used where it has them.
"""

from __future__ import annotations

from fieldmark.stats.bootstrap import (
    Resampling,
    jackknife_limits,
    replicate_scores,
    unit_blocks,
    unit_weights,
)
from fieldmark.stats.holm import holm
from fieldmark.stats.interval import bootstrap, interval, percentile_limits
from fieldmark.stats.items import Items, code_labels, estimate
from fieldmark.stats.macro_interval import WeakCoverage, weak_coverage
from fieldmark.stats.paired import Comparison, compare
from fieldmark.stats.power import CORRELATION, DISAGREEMENT, UnitSpread, items_to_detect
from fieldmark.stats.ranks import Ordering, Ranks, kendall_tau, rank_intervals
from fieldmark.stats.tiers import Tiers, tiers
from fieldmark.stats.variance import VarianceParts, variance_parts
from fieldmark.stats.wilson import Interval, wilson

__all__ = [
    "CORRELATION",
    "DISAGREEMENT",
    "Comparison",
    "Interval",
    "Items",
    "Ordering",
    "Ranks",
    "Resampling",
    "Tiers",
    "UnitSpread",
    "VarianceParts",
    "WeakCoverage",
    "bootstrap",
    "code_labels",
    "compare",
    "estimate",
    "holm",
    "interval",
    "items_to_detect",
    "jackknife_limits",
    "kendall_tau",
    "percentile_limits",
    "rank_intervals",
    "replicate_scores",
    "tiers",
    "unit_blocks",
    "unit_weights",
    "variance_parts",
    "weak_coverage",
    "wilson",
]

"""How sure is a number, and do two of them differ?

Items that share a unit (burst, camera, individual, observation) are one draw from the world, so
units are resampled, never single frames. Every score has an interval that contains it; two models
are compared on the same items with the same draws. The tests repeat the simulation behind each
choice. A metric is any function `f(target, prediction, weight) -> float`; its attributes `kind`,
`bounds`, `direction` and `closed_form` are used where it has them.
"""

from __future__ import annotations

from fieldmark.stats._compare import Comparison, compare
from fieldmark.stats._correction import benjamini_hochberg, holm
from fieldmark.stats._interval import Interval, bootstrap, interval, percentile_limits, wilson
from fieldmark.stats._items import Items, code_labels, estimate
from fieldmark.stats._paired import Difference, Ties, paired_difference, ties_with_best
from fieldmark.stats._power import items_to_detect
from fieldmark.stats._ranks import Place, Ranks, kendall_tau, rank_intervals
from fieldmark.stats._repeats import VarianceParts, variance_parts
from fieldmark.stats._replicates import replicate_scores
from fieldmark.stats._resample import Resampling
from fieldmark.stats._tiers import Tiers, tier_letter, tiers
from fieldmark.stats._weak import WeakCoverage, weak_coverage
from fieldmark.stats._weights import jackknife_limits, unit_blocks, unit_weights

__all__ = [
    "Comparison",
    "Difference",
    "Interval",
    "Items",
    "Place",
    "Ranks",
    "Resampling",
    "Tiers",
    "Ties",
    "VarianceParts",
    "WeakCoverage",
    "benjamini_hochberg",
    "bootstrap",
    "code_labels",
    "compare",
    "estimate",
    "holm",
    "interval",
    "items_to_detect",
    "jackknife_limits",
    "kendall_tau",
    "paired_difference",
    "percentile_limits",
    "rank_intervals",
    "replicate_scores",
    "tier_letter",
    "tiers",
    "ties_with_best",
    "unit_blocks",
    "unit_weights",
    "variance_parts",
    "weak_coverage",
    "wilson",
]

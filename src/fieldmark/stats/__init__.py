"""Statistics: how sure is a number, and do two of them differ?

Items that share a unit (burst, camera, individual, observation) are one draw from the world, in
whatever parts and repeats they are asked about. From the answers of several models to the same
items, `errors` finds the covariance of their scores' errors; intervals, differences, tiers and
ranks all follow from it. A metric is any function `f(target, prediction, weight) -> float`; its
attributes `kind`, `bounds`, `direction` and `closed_form` are used where it has them.
"""

from __future__ import annotations

from fieldmark.stats.bootstrap import (
    Resampling,
    jackknife_limits,
    percentile_limits,
    unit_blocks,
    unit_weights,
)
from fieldmark.stats.covariance import Errors, errors, join
from fieldmark.stats.interval import (
    Interval,
    interval,
    score_intervals,
    student,
    wilson,
    wilson_limits,
)
from fieldmark.stats.items import LEVEL, Items, code_labels, count_units, estimate
from fieldmark.stats.paired import (
    Comparison,
    compare,
    compare_many,
    compare_pair,
    compare_with,
    holm,
)
from fieldmark.stats.power import CORRELATION, DISAGREEMENT, UnitSpread
from fieldmark.stats.tiers import (
    kendall_tau,
    may_be_best,
    rank_limits,
    rank_limits_elsewhere,
    ranked,
    tiers,
)

__all__ = [
    "CORRELATION",
    "DISAGREEMENT",
    "LEVEL",
    "Comparison",
    "Errors",
    "Interval",
    "Items",
    "Resampling",
    "UnitSpread",
    "code_labels",
    "compare",
    "compare_many",
    "compare_pair",
    "compare_with",
    "count_units",
    "errors",
    "estimate",
    "holm",
    "interval",
    "jackknife_limits",
    "join",
    "kendall_tau",
    "may_be_best",
    "percentile_limits",
    "rank_limits",
    "rank_limits_elsewhere",
    "ranked",
    "score_intervals",
    "student",
    "tiers",
    "unit_blocks",
    "unit_weights",
    "wilson",
    "wilson_limits",
]

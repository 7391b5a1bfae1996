"""Which standard error stands behind an interval?

Formats of language-model suites hold one number of uncertainty, the standard error of a mean. Where
the values of single documents are known, it is worked out from them as those suites do; documents
of one unit count as one draw. Elsewhere an interval gives it back: Wilson's of a share by the
share, resampled ones by half their width over Student's quantile, which widened them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from fieldmark.store import Score

NOT_KNOWN = "N/A"
"""what those formats write"""


def standard_error(score: Score) -> float | str:
    """
    >>> standard_error(Score("acc", 0.5, low=0.2, high=0.8, n=10, method="wilson"))
    0.16666666666666666
    >>> standard_error(Score("acc", 0.5, n=10))
    'N/A'
    """
    if score.low is None or score.high is None or math.isnan(score.value):
        return NOT_KNOWN
    if score.method == "wilson":
        spread = score.value * (1 - score.value)
        return math.sqrt(spread / (score.n - 1)) if score.n > 1 else NOT_KNOWN
    return (score.high - score.low) / 2 / _quantile(score)


def error_of_mean(values: Sequence[float], units: Sequence[object]) -> float | str:
    """The standard error of a mean over units; with one document per unit, SD / root of n.

    >>> error_of_mean([0, 1, 1, 1], "abcd"), error_of_mean([0, 0, 1, 1], "aabb")
    (0.25, 0.5)
    """
    mean, off = sum(values) / max(len(values), 1), dict[object, float]()
    for value, unit in zip(values, units, strict=True):
        off[unit] = off.get(unit, 0.0) + value - mean
    n = len(off)
    if n < 2:
        return NOT_KNOWN
    return math.sqrt(sum(each**2 for each in off.values()) * n / (n - 1)) / len(values)


def _quantile(score: Score) -> float:
    freedom = (score.n_units or score.n) - 1
    if freedom < 1:
        return NormalDist().inv_cdf((1 + score.level) / 2)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + score.level) / 2))

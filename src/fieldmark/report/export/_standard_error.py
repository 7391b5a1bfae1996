"""Which standard error stands behind an interval?

Formats of language-model suites hold one number of uncertainty, the standard error of a mean. An
interval gives it back where it was made from one: Wilson's of a share (the sample's standard
deviation over the root of n), resampled ones by half their width over Student's quantile, which
widened them. Other files take it times 1.96, so the skewness of an interval is lost.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from fieldmark.report.groups import METHOD
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


def _quantile(score: Score) -> float:
    freedom = (score.n_units or score.n) - 1
    if score.method == METHOD or freedom < 1:
        return NormalDist().inv_cdf((1 + score.level) / 2)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + score.level) / 2))

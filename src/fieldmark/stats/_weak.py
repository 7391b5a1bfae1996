"""Where is an interval known to hold the truth less often than it claims?

Scores averaged over classes rest on each class's few images: resamples of one or two images cannot
say how another image of the class would have fared. Said as data, so that tables and pages show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.stats._items import Items, Metric

FEW = 5
"""test images below which a class counts as thin"""


@dataclass(frozen=True, slots=True)
class WeakCoverage:
    """Why an interval may be too narrow, and which metric to show beside it."""

    n_thin: int
    n_classes: int
    few: int
    beside: str
    """the metric whose interval behaves better; "" where the metric is that one"""

    @property
    def words(self) -> str:
        """The warning, one line."""
        return f"{self.n_thin} of {self.n_classes} classes have < {self.few} test images"


def weak_coverage(items: Items, metric: Metric, few: int = FEW) -> WeakCoverage | None:
    """The warning for this metric on these items; None where its interval is as good as it claims.

    Metrics that are means over items need none. Of parts, each part's classes are counted.
    """
    form = getattr(metric, "closed_form", "")
    if getattr(metric, "kind", "other") == "mean" or form not in ("recall", "f1"):
        return None
    key = np.asarray(items.target)
    if items.score == "mean":
        key = items.part_codes() * (int(key.max(initial=0)) + 1) + key
    size_c = np.unique(key, return_counts=True)[1]
    n_thin = int((size_c < few).sum())
    if not n_thin:
        return None
    return WeakCoverage(n_thin, len(size_c), few, "" if form == "recall" else "macro_accuracy")

"""The best tier by name, as tests of statistics ask for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fieldmark.stats import Items, Resampling, tiers


@dataclass(frozen=True)
class Ties:
    best: str
    tied: tuple[str, ...]
    """the best and those not distinguishable from it, best score first"""
    p: Mapping[str, float]
    """of each other model against the best, corrected for the choice among all models"""


def ties_with_best(
    items: Items,
    predictions: Mapping[str, np.ndarray],
    metric: Callable[..., float],
    resampling: Resampling | None = None,
) -> Ties:
    names = list(predictions)
    found = tiers(items, np.array(list(predictions.values())), metric, resampling or Resampling())
    tied = tuple(names[model] for model in found.order if found.letters[model] == "A")
    p = {names[model]: float(found.p_best[model]) for model in found.order[1:]}
    return Ties(names[found.order[0]], tied, p)

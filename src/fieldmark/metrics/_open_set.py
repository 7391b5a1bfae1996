"""Open-set user loss: what do wrong answers cost someone who eats the mushroom?

The user-focused loss of FungiCLEF 2023 (https://www.imageclef.org/FungiCLEF2023): a species that
training does not know, taken for a known one, costs 10, a known one taken for unknown 0.1, one
known species for another 1; on top of it, a poisonous one not told to be poisonous costs 100, and
any other told to be poisonous 1. "unknown" counts as not poisonous on both sides. The sum is
divided by the most these items could have cost, so that it lies between 0 and 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldmark.metrics._classification import read_labels
from fieldmark.metrics._metric import metric

POISONOUS, UNKNOWN = "poisonous", "unknown"
NEW_AS_KNOWN, KNOWN_AS_NEW, WRONG = 10.0, 0.1, 1.0
POISON_MISSED, POISON_FEARED = 100.0, 1.0


@metric("user loss", direction="down", bounds=(0.0, 1.0), takes_many=True, uses="kinds")
def user_loss(
    target: np.ndarray,
    prediction: np.ndarray,
    weight: np.ndarray | None = None,
    *,
    kind: np.ndarray,
) -> Any:
    """FungiCLEF 2023's cost of wrong answers: `cost / the most these items could have cost`.

    An unknown species taken for a known one costs 10, a known one for unknown 0.1, one known for
    another 1; besides, a poisonous one not told to be poisonous 100, any other told to be so 1.
    """
    target, prediction, weight = read_labels(target, prediction, weight)
    total = np.asarray(weight @ _worst(kind[target]))
    cost = weight @ _costs(target, prediction, kind)
    value = np.divide(cost, total, out=np.full(total.shape, np.nan), where=total > 0)
    return float(value) if value.ndim == 0 else value


def _costs(target: np.ndarray, prediction: np.ndarray, kind_c: np.ndarray) -> np.ndarray:
    said_n = np.where(prediction >= 0, kind_c[prediction], "")
    is_new, is_poison = kind_c[target] == UNKNOWN, kind_c[target] == POISONOUS
    said_new, said_poison = said_n == UNKNOWN, said_n == POISONOUS
    wrong = np.where(is_new, NEW_AS_KNOWN, np.where(said_new, KNOWN_AS_NEW, WRONG))
    cost = np.where((target == prediction) | (is_new & said_new), 0.0, wrong)
    cost += np.where(is_poison & ~said_poison, POISON_MISSED, 0.0)
    return np.asarray(cost + np.where(~is_poison & said_poison, POISON_FEARED, 0.0))


def _worst(kind_n: np.ndarray) -> np.ndarray:
    """The most that an item can cost."""
    mistaken = np.where(kind_n == UNKNOWN, NEW_AS_KNOWN, WRONG)
    return np.asarray(mistaken + np.where(kind_n == POISONOUS, POISON_MISSED, POISON_FEARED))

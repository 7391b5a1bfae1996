"""Which scores would several models have had, had other units been met by all of them?

With many units and a metric whose items' values are known, resampled scores are normal with the
covariance of these values, and are drawn so: 100 models cost little more than one. Otherwise every
model is scored on every resample.
"""

from __future__ import annotations

import numpy as np

from fieldmark.stats._class_interval import class_spread
from fieldmark.stats._influence import form_of, item_share, read_classes
from fieldmark.stats._interval import count_units
from fieldmark.stats._items import Items, Metric, item_values, weighted_score
from fieldmark.stats._resample import Resampling, cell_kinds

_DEFAULT = Resampling()
_MANY_UNITS = 200


def replicate_scores(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling = _DEFAULT
) -> np.ndarray:
    """Resampled scores (draws × models) from draws that all models share."""
    answers_mn = np.asarray(answers_mn)
    if not answers_mn.size:
        raise ValueError(f"answers have the shape {answers_mn.shape}: expected models × items.")
    if form_of(metric) and count_units(items) >= _MANY_UNITS:
        return _normal(items, answers_mn, metric, resampling)
    return _scored(items, answers_mn, metric, resampling)


def _normal(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    score_m, spread_mu = _spreads(items, answers_mn, metric)
    strength, axes = np.linalg.eigh((spread_mu @ spread_mu.T).astype(np.float64))
    root = axes * np.sqrt(np.maximum(strength, 0.0))
    luck = resampling.generator("interval").standard_normal((resampling.draws, len(score_m)))
    return np.asarray(score_m + luck @ root.T)


def _spreads(items: Items, answers_mn: np.ndarray, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Each model's score, and each unit's part of its spread (models × units, float32)."""
    unit_n = items.unit_codes()
    score_m = np.empty(len(answers_mn))
    spread_mu = np.empty((len(answers_mn), int(unit_n.max()) + 1), np.float32)
    is_by_class = form_of(metric) in ("recall", "f1")
    classes = read_classes(items, int(answers_mn.max())) if is_by_class else None
    share_n, part_n = item_share(items), items.part_codes()
    size_p = np.bincount(part_n)
    for model, answer_n in enumerate(answers_mn):
        if classes is not None:
            score_m[model], spread_n = class_spread(items, classes, answer_n, metric)
        else:
            value_n = np.asarray(item_values(metric, items.target, answer_n))
            score_m[model] = value_n @ share_n
            spread_n = (value_n - (np.bincount(part_n, value_n) / size_p)[part_n]) * share_n
        spread_mu[model] = np.bincount(unit_n, spread_n)
    return score_m, spread_mu


def _scored(
    items: Items, answers_mn: np.ndarray, metric: Metric, resampling: Resampling
) -> np.ndarray:
    cells = cell_kinds(items, *answers_mn)
    target = cells.columns[:, 0]
    scores = [
        weighted_score(items, metric, cells.part, target, answer) for answer in cells.columns.T[1:]
    ]
    blocks = [
        np.stack([score(weight) for score in scores], axis=1)
        for weight in map(cells.weights, cells.kinds.resampled(resampling, "interval"))
    ]
    return np.concatenate(blocks)

"""Metrics: which number says how good the predictions are?

A metric is a plain function `f(target, prediction, weight=None) -> float` over whole numbers, one
per item. `weight` says how often each item counts (resampling counts): weight 2 is the item twice,
weight 0 is the item left out. A prediction of -1 stands for "no answer" and equals no target:
`wrong_answers` says what stands for no answer by any metric. Without any item the value is NaN.

By `uses` a metric says what takes the place of predictions:

    prediction   the number of the predicted label (the default)
    score        a signed certainty, of yes above 0 and of no below; the target is 1 for yes
    whole        1 where all parts of an answer are right, else 0; the target is 1, a row per photo
    kinds        label numbers, and as `kind` an array: what each label number is ("poisonous")
    value        what each answer was worth, stored with its answer under the metric's name

Each metric carries `title`, `direction` ("up": more is better, or "down"), `bounds` (the least and
the most it can be) and `kind`: "mean" when it is the weighted mean of one value per item, which has
exact shortcuts, else "other". Users add theirs by `my_metrics.py:my_metric`, an entry point in the
group `fieldmark.metrics`, or `register_metric`.
"""

from typing import TYPE_CHECKING

from fieldmark import exports
from fieldmark.metrics._metric import Metric, metric
from fieldmark.metrics._registry import known_metrics, load_metric, register_metric

if TYPE_CHECKING:
    from fieldmark.metrics._baselines import blind_answers, fill_values, wrong_answers
    from fieldmark.metrics._classification import calibration
    from fieldmark.metrics._retrieval import (
        average_precision_at_k,
        average_precisions,
        first_positives,
        ndcg_at_k,
        recall_at_k,
        reciprocal_rank,
        reciprocal_rank_at_k,
    )
    from fieldmark.metrics._values import mean_value

__all__ = [
    "Metric",
    "average_precision_at_k",
    "average_precisions",
    "blind_answers",
    "calibration",
    "fill_values",
    "first_positives",
    "known_metrics",
    "load_metric",
    "mean_value",
    "metric",
    "ndcg_at_k",
    "recall_at_k",
    "reciprocal_rank",
    "reciprocal_rank_at_k",
    "register_metric",
    "wrong_answers",
]


__getattr__ = exports(__name__)

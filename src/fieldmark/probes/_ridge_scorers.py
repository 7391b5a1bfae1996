"""How good are predicted class numbers? Scores that depend on (true, predicted) counts alone.

Equal, to the last bit, to scikit-learn's `accuracy` and `f1_macro`, so that ties between strengths
fall as in its grid search.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Scorer = Callable[[np.ndarray, np.ndarray], float]


def accuracy(true_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The share of rows predicted right."""
    return float(np.mean(true_n == predicted_n))


def macro_accuracy(true_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The mean share of right rows over the classes that occur.

    scikit-learn's balanced accuracy, without its warning of classes that are only predicted.
    """
    count_c = np.bincount(true_n)
    hit_c = np.bincount(true_n, weights=true_n == predicted_n)
    return float(np.mean(hit_c[count_c > 0] / count_c[count_c > 0]))


def macro_f1(true_n: np.ndarray, predicted_n: np.ndarray) -> float:
    """The mean F1 over the classes that occur or are predicted."""
    n_classes = int(max(true_n.max(), predicted_n.max())) + 1
    hit_c = np.bincount(true_n[true_n == predicted_n], minlength=n_classes)
    seen_c = np.bincount(true_n, minlength=n_classes)
    seen_c += np.bincount(predicted_n, minlength=n_classes)
    return float(np.average(2 * hit_c[seen_c > 0] / seen_c[seen_c > 0]))


SCORERS: dict[str, Scorer] = {
    "accuracy": accuracy,
    "macro_accuracy": macro_accuracy,
    "macro_f1": macro_f1,
}

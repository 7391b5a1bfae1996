"""Calibration (expected calibration error, log loss): are answers right as often as they say?

Expected calibration error (Guo et al. 2017): the answers in 15 bins of certainty, all as wide; in
each the gap between the mean certainty and the share that is right, weighted by its answers. Log
loss: the mean of `-log p` of the truth, in nats. No metrics by name: both need more than an answer.
"""

from __future__ import annotations

import numpy as np

N_BINS = 15
_LEAST = float(np.finfo(np.float64).eps)
"""as in scikit-learn's `log_loss`: a probability of 0 costs 36, not infinity"""


def calibration(
    sure_n: np.ndarray, is_right_n: np.ndarray, truth_n: np.ndarray
) -> dict[str, float]:
    """`ece` and `nll` of answers with these certainties and these probabilities of the truth.

    >>> calibration(np.array([0.75, 0.75]), np.array([True, False]), np.array([0.75, 0.25]))["ece"]
    0.25
    """
    bin_n = np.minimum((sure_n * N_BINS).astype(np.intp), N_BINS - 1)
    gap_b = np.bincount(bin_n, is_right_n - sure_n, N_BINS)
    return {
        "ece": float(np.abs(gap_b).sum() / len(sure_n)),
        "nll": float(-np.log(np.clip(truth_n, _LEAST, 1)).mean()),
    }

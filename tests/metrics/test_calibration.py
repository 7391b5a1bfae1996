"""Calibration of probabilities against scikit-learn's log loss, and bins counted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from fieldmark.metrics import calibration


def test_log_loss_is_scikit_learns_and_the_error_that_of_fifteen_bins() -> None:
    random = np.random.default_rng(0)
    prob_nc = random.dirichlet(np.full(4, 0.3), 500)
    true_n = random.integers(0, 4, 500)
    sure_n, is_right_n = prob_nc.max(axis=1), prob_nc.argmax(axis=1) == true_n
    told = calibration(sure_n, is_right_n, prob_nc[np.arange(500), true_n])
    assert told["nll"] == pytest.approx(log_loss(true_n, prob_nc))
    gap = 0.0
    for number in range(15):
        low, high = number / 15, (number + 1) / 15
        inside = (sure_n >= low) & ((sure_n < high) | (number == 14))
        if inside.any():
            gap += inside.mean() * abs(sure_n[inside].mean() - is_right_n[inside].mean())
    assert told["ece"] == pytest.approx(gap)


def test_a_sure_answer_that_is_wrong_costs_much_and_not_everything() -> None:
    told = calibration(np.ones(2), np.array([True, False]), np.array([1.0, 0.0]))
    assert told["ece"] == 0.5 and told["nll"] == pytest.approx(18, abs=0.1)

"""Ranks on tasks like these, and Kendall's tau."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from fieldmark.stats import kendall_tau, rank_limits_elsewhere, ranked


def test_a_model_that_always_wins_is_first_everywhere():
    random = np.random.default_rng(0)
    height_tm = random.normal(0, 0.01, (8, 4)) + np.array([3.0, 2.0, 1.0, 0.0])
    np.testing.assert_array_equal(
        rank_limits_elsewhere(height_tm), [[1, 1], [2, 2], [3, 3], [4, 4]]
    )


def test_tasks_that_disagree_leave_every_rank_open():
    limits = rank_limits_elsewhere(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_array_equal(limits, [[1, 2], [1, 2]])


def test_two_tasks_say_nothing_of_others():
    assert np.isnan(rank_limits_elsewhere(np.zeros((2, 3)))).all()
    with pytest.raises(ValueError, match="tasks × models"):
        rank_limits_elsewhere(np.zeros(3))


def test_the_rank_over_all_tasks_is_held():
    random, held = np.random.default_rng(1), []
    skill = np.linspace(0.3, -0.3, 6)
    for _ in range(300):
        height_tm = skill + random.normal(0, 0.15, (12, 6)) + random.normal(0, 0.2, (12, 1))
        low, high = rank_limits_elsewhere(height_tm)[2]
        held.append(low <= 3 <= high)
    assert np.mean(held) > 0.92


def test_equals_share_the_mean_of_their_ranks():
    np.testing.assert_array_equal(ranked(np.array([[0.2, 0.9, 0.2]])), [[2.5, 1.0, 2.5]])
    height_rm = np.random.default_rng(0).integers(0, 5, (30, 8)).astype(float)
    np.testing.assert_array_equal(ranked(height_rm), scipy.stats.rankdata(-height_rm, axis=1))


def test_tau_equals_scipy():
    random = np.random.default_rng(2)
    value_tm = random.integers(0, 6, (5, 9)).astype(float)
    ours = kendall_tau(value_tm)
    for a in range(5):
        for b in range(5):
            theirs = scipy.stats.kendalltau(value_tm[a], value_tm[b]).statistic
            assert ours[a, b] == pytest.approx(theirs)


def test_tau_of_models_that_did_both():
    value_tm = np.array([[1.0, 2.0, np.nan, 3.0], [1.0, 2.0, 9.0, 3.0]])
    assert kendall_tau(value_tm)[0, 1] == pytest.approx(1.0)
    assert np.isnan(kendall_tau(np.array([[1.0, 1.0], [1.0, 2.0]]))[0, 1])

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, Resampling, kendall_tau, rank_intervals, replicate_scores

SETTINGS = Resampling(draws=400)


def scores(tasks: int = 12, noise: float = 0.05, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    skill = np.array([0.5, 0.9, 0.7, 0.71])
    return skill + random.normal(0, 0.1, (tasks, 1)) + random.normal(0, noise, (tasks, 4))


def test_places_by_mean_and_by_borda() -> None:
    found = rank_intervals(scores(), resampling=SETTINGS)
    assert found.mean.rank[1] == found.borda.rank[1] == 1
    assert found.mean.rank[0] == found.borda.rank[0] == 4
    assert found.mean.value.tolist() == pytest.approx(scores().mean(axis=0).tolist())
    wins = [(scores()[:, [m]] > np.delete(scores(), m, 1)).mean() for m in range(4)]
    assert found.borda.value.tolist() == pytest.approx(wins)
    for place in (found.mean, found.borda):
        assert (place.low <= place.value).all() and (place.value <= place.high).all()
        assert (place.rank_low <= place.rank).all() and (place.rank <= place.rank_high).all()
    close = rank_intervals(scores(noise=0.1, seed=1), resampling=SETTINGS).mean
    assert close.rank_low[2] == 2 and close.rank_high[2] == 3
    assert close.rank_low[1] == close.rank_high[1] == 1
    assert (found.n_tasks, found.has_items) == (12, False)


def test_one_task_cannot_rule_borda() -> None:
    value = np.tile([0.5, 0.6], (5, 1))
    value[0] = [50.0, 0.0]
    found = rank_intervals(value, resampling=SETTINGS)
    assert found.mean.rank.tolist() == [1, 2] and found.borda.rank.tolist() == [2, 1]


def test_items_widen_the_places() -> None:
    random = np.random.default_rng(1)
    value = scores(noise=0.001)
    replicates = [each + random.normal(0, 0.1, (300, 4)) for each in value]
    alone = rank_intervals(value, resampling=SETTINGS)
    both = rank_intervals(value, replicates, resampling=SETTINGS)
    assert both.has_items
    assert (both.borda.high - both.borda.low).sum() > (alone.borda.high - alone.borda.low).sum()


def test_equal_models_share_a_place_and_gaps_are_left_out() -> None:
    value = np.array([[0.5, 0.5, 0.1], [0.6, 0.6, 0.2], [0.9, np.nan, 0.1]])
    found = rank_intervals(value, resampling=SETTINGS)
    assert found.n_tasks == 2
    assert found.mean.rank.tolist() == found.borda.rank.tolist() == [1.5, 1.5, 3]
    assert found.borda.value.tolist() == [0.75, 0.75, 0]


def test_less_can_be_better() -> None:
    found = rank_intervals(scores(), is_up=[False] * 12, resampling=SETTINGS)
    assert found.mean.rank[0] == found.borda.rank[0] == 1


def test_seed_and_mistakes() -> None:
    first, again = (rank_intervals(scores(), resampling=SETTINGS).mean.low for _ in range(2))
    assert (first == again).all()
    with pytest.raises(ValueError, match="tasks × models"):
        rank_intervals(np.zeros(3))
    with pytest.raises(ValueError, match="no task has a score of every model"):
        rank_intervals([[np.nan, 1.0]])
    with pytest.raises(ValueError, match="tasks × models"):
        kendall_tau(np.zeros(3))


@given(st.integers(0, 10_000), st.integers(2, 12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_kendall_equals_scipy(seed: int, models: int, has_gaps: bool) -> None:
    random = np.random.default_rng(seed)
    value = random.integers(0, 6, (4, models)).astype(float)
    if has_gaps:
        value[random.random(value.shape) < 0.2] = np.nan
    ours = kendall_tau(value)
    for i in range(4):
        for j in range(4):
            both = ~np.isnan(value[i] + value[j])
            theirs = scipy.stats.kendalltau(value[i][both], value[j][both]).statistic
            assert ours[i, j] == pytest.approx(theirs, nan_ok=True)


@pytest.mark.parametrize("name", ["accuracy", "macro_accuracy", "macro_f1"])
@pytest.mark.parametrize("n", [120, 600])
def test_replicates_share_their_draws(name: str, n: int) -> None:
    """Models that answer alike fare alike in every resample, and spread as their scores do."""
    random = np.random.default_rng(0)
    target = random.integers(0, 5, n)
    first, second = (np.where(random.random(n) < 0.7, target, (target + 1) % 5) for _ in range(2))
    answers = np.stack([first, first, second])
    found = replicate_scores(Items(target), answers, load_metric(name), SETTINGS)
    assert found.shape == (400, 3)
    np.testing.assert_allclose(found[:, 0], found[:, 1], atol=1e-6)
    assert found[:, 0].std() == pytest.approx(np.sqrt(0.7 * 0.3 / n), rel=0.2)
    assert found.mean(axis=0)[2] == pytest.approx(load_metric(name)(target, second), abs=0.01)
    assert abs(np.corrcoef(found[:, 0], found[:, 2])[0, 1]) < 0.25


def test_means_over_parts_spread_within_parts() -> None:
    """Drawn within parts: what sets the parts apart is no luck."""
    part = np.repeat([0, 1], 300)
    answer = np.where(part == 0, 1, np.arange(600) % 2)
    items = Items(np.ones(600, int), None, part, "mean")
    found = replicate_scores(items, answer[None], load_metric("accuracy"), SETTINGS)
    assert found.std() == pytest.approx(0.5 * np.sqrt(0.25 / 300), rel=0.15)

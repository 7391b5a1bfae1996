"""Average precision against scikit-learn, with ties, weights and many resamples at once."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, errors, estimate, interval, tiers

METRIC = load_metric("average_precision")

Case = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n = draw(st.integers(1, 40))
    target = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    score = draw(
        st.lists(st.sampled_from([-2.5, -1.0, 0.0, 0.25, 1.0, 3.0]), min_size=n, max_size=n)
    )
    weight = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return np.array(target), np.array(score), np.array(weight)


def theirs(target: np.ndarray, score: np.ndarray, weight: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(average_precision_score(target, score, sample_weight=weight))


@given(case=cases())
def test_equals_scikit_learn(case: Case) -> None:
    target, score, weight = case
    ones = np.ones(len(target))
    assert METRIC(target, score) == pytest.approx(theirs(target, score, ones))
    if weight.sum():
        assert METRIC(target, score, weight) == pytest.approx(theirs(target, score, weight))
    else:
        assert math.isnan(METRIC(target, score, weight))


@given(case=cases(), seed=st.integers(0, 99))
def test_many_resamples_are_as_many_single_ones(case: Case, seed: int) -> None:
    target, score, _ = case
    weights = np.random.default_rng(seed).integers(0, 3, (5, len(target)))
    many = METRIC(target, score, weights)
    assert many == pytest.approx([METRIC(target, score, each) for each in weights], nan_ok=True)


def test_intervals_and_ties_work_with_scores() -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 2, 400)
    good, bad = target + random.normal(0, 0.7, 400), random.normal(0, 1, 400)
    items = Items(target, unit=np.arange(400) // 4)
    for score in (good, bad):
        value, found = estimate(items, score, METRIC), interval(items, score, METRIC)
        assert value == pytest.approx(average_precision_score(target, score))
        assert found.low < value < found.high
    found = tiers(errors(items, np.stack([good, bad, good]), METRIC))
    assert found == ("A", "B", "A")


def test_columns_must_fit() -> None:
    with pytest.raises(ValueError, match="expected one value per item"):
        METRIC(np.array([1, 0]), np.array([0.5]))

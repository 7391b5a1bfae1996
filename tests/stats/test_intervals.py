"""Wilson's interval, and which method an interval uses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.metrics import load_metric, metric
from fieldmark.stats import Items, errors, estimate, interval, score_intervals, wilson

accuracy, macro_accuracy = load_metric("accuracy"), load_metric("macro_accuracy")
LABEL_METRICS = ["accuracy", "macro_accuracy", "macro_f1"]


class TestWilson:
    @pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (27, 30), (0, 40), (40, 40), (3, 900)])
    @pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
    def test_equals_scipy(self, hits: int, n: int, level: float) -> None:
        theirs = scipy.stats.binomtest(hits, n).proportion_ci(level, "wilson")
        ours = wilson(hits, n, level)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)

    def test_all_right_and_all_wrong_reach_the_end(self) -> None:
        assert wilson(50, 50).high == 1.0 and 0.9 < wilson(50, 50).low < 1
        assert wilson(0, 50).low == 0.0 and 0 < wilson(0, 50).high < 0.1

    def test_nothing_seen_says_nothing(self) -> None:
        assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)

    @given(st.integers(0, 300), st.integers(0, 300))
    def test_contains_the_share(self, right: int, wrong: int) -> None:
        ours = wilson(right, right + wrong)
        assert 0 <= ours.low <= right / max(1, right + wrong) <= ours.high <= 1

    def test_mistakes(self) -> None:
        with pytest.raises(ValueError, match="5 hits of 4"):
            wilson(5, 4)


def answered(n: int = 240, classes: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, n)
    return target, np.where(random.random(n) < 0.7, target, random.integers(0, classes, n))


def test_a_share_of_independent_items_has_wilsons_interval():
    target, answer = answered()
    expected = wilson(int((target == answer).sum()), 240)
    assert interval(Items(target), answer, accuracy) == expected
    names = np.array([f"photo {i}" for i in range(240)], dtype=object)
    assert interval(Items(target, names), answer, accuracy) == expected


def test_a_mean_without_bounds_has_students_interval():
    @metric("size", kind="mean")
    def size(target: Any, prediction: Any, weight: Any = None) -> float:
        return float(np.average(prediction, weights=weight))

    value = np.random.default_rng(1).normal(3, 2, 40)
    ours = interval(Items(np.zeros(40, int)), value, size)
    theirs = scipy.stats.t.interval(0.95, 39, value.mean(), scipy.stats.sem(value))
    assert (ours.low, ours.high) == pytest.approx(theirs, rel=1e-5)


def test_equal_bursts_are_as_many_shares():
    """Photos of a burst that all fare alike say no more than one photo of each."""
    random = np.random.default_rng(2)
    burst = (random.random(60) < 0.8).astype(int)
    wide = interval(
        Items(np.ones(600, int), np.repeat(np.arange(60), 10)), np.repeat(burst, 10), accuracy
    )
    alone = wilson(int(burst.sum()), 60)
    assert (wide.n, wide.n_units) == (600, 60)
    assert wide.half_width == pytest.approx(alone.half_width, rel=0.15)
    assert wide.half_width >= 0.98 * alone.half_width


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_what_cannot_matter_does_not(name: str):
    target, answer = answered()
    unit, part = np.arange(240) // 4, np.arange(240) // 120
    loaded = load_metric(name)
    plain = interval(Items(target, unit, part, "mean"), answer, loaded)
    order = np.random.default_rng(3).permutation(240)
    mixed = interval(Items(target[order], unit[order], part[order], "mean"), answer[order], loaded)
    assert (mixed.low, mixed.high) == pytest.approx((plain.low, plain.high), abs=1e-6)
    names = np.array([f"unit {u}" for u in unit], dtype=object)
    renamed = interval(Items(target, names, part, "mean"), answer, loaded)
    assert (renamed.low, renamed.high) == pytest.approx((plain.low, plain.high), abs=1e-6)
    assert plain.low <= estimate(Items(target, unit, part, "mean"), answer, loaded) <= plain.high


@pytest.mark.parametrize("n", [8, 400])
@pytest.mark.parametrize("name", LABEL_METRICS)
def test_a_photo_that_was_asked_about_five_times_is_one_photo(name: str, n: int):
    """Five equal answers change neither the score nor what is known of it."""
    target, answer = answered(n)
    loaded = load_metric(name)
    once = interval(Items(target, np.arange(n)), answer, loaded)
    repeat, unit = np.repeat(np.arange(5), n), np.tile(np.arange(n), 5)
    again = interval(Items(np.tile(target, 5), unit, repeat=repeat), np.tile(answer, 5), loaded)
    assert (again.n, again.n_units) == (n, n)
    assert (again.low, again.high) == (once.low, once.high)


def test_all_intervals_at_once_are_those_one_by_one():
    target, first = answered()
    second = answered(seed=1)[1]
    items = Items(target, np.arange(240) // 3)
    both = score_intervals(errors(items, np.stack([first, second]), macro_accuracy))
    alone = [interval(items, answer, macro_accuracy) for answer in (first, second)]
    for one, other in zip(both, alone, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-6)


def test_all_right_with_thin_classes_reaches_down_to_what_they_may_hide():
    """Ten classes of fifty photos and ten of one, all right: half of the classes hang on ten."""
    target = np.r_[np.repeat(np.arange(10), 50), np.arange(10, 20)]
    ours = interval(Items(target), target, macro_accuracy)
    assert ours.high == 1.0
    assert ours.low == pytest.approx(1 - 10 / 20 * (1 - 0.05 ** (1 / 10)), abs=0.003)


def test_one_unit_has_no_interval_and_nothing_says_nothing():
    target, answer = answered(20)
    alone = interval(Items(target, np.zeros(20, int)), answer, accuracy)
    assert math.isnan(alone.low) and "independent units" in alone.why
    nothing = interval(Items(target[:0]), answer[:0], accuracy)
    assert (nothing.low, nothing.high, nothing.n) == (0.0, 1.0, 0)


def test_arrays_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="unit has the shape"):
        Items(np.zeros(3, int), np.zeros(2, int))
    with pytest.raises(ValueError, match="models × items"):
        errors(Items(np.zeros(3, int)), np.zeros((1, 2), int), accuracy)

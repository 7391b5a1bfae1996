"""Two models on the same units."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, compare, compare_pair, compare_with, errors, join

LABEL_METRICS = ["accuracy", "macro_accuracy", "macro_f1"]
accuracy = load_metric("accuracy")


def two_models(n: int = 300, lift: float = 0.1, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Two models that mostly agree; the first is right on `lift` more of the items."""
    random = np.random.default_rng(seed)
    target = random.integers(0, 5, n)
    luck, easy = random.random(n), random.random(n)
    first, second = (
        np.where((easy < 0.6) | (luck < limit), target, (target + 1) % 5)
        for limit in (0.3 + lift, 0.3)
    )
    return target, first, second


def test_mcnemar_equals_scipy():
    random = np.random.default_rng(0)
    target = random.integers(0, 3, 150)
    first, second = (
        np.where(random.random(150) < right, target, (target + 1) % 3) for right in (0.8, 0.7)
    )
    ours = compare(Items(target), first, second, accuracy)
    n_first = int(((first == target) & (second != target)).sum())
    n_second = int(((first != target) & (second == target)).sum())
    assert ours.test == "mcnemar"
    assert ours.p == pytest.approx(scipy.stats.binomtest(n_first, n_first + n_second, 0.5).pvalue)
    assert ours.difference == pytest.approx((n_first - n_second) / 150)


def test_many_equal_units_give_the_paired_t_test():
    random = np.random.default_rng(1)
    lead = random.integers(-3, 4, 400)
    target = np.ones(1200, int)
    first = np.concatenate([np.r_[np.ones(max(x, 0)), np.zeros(3 - max(x, 0))] for x in lead])
    second = np.concatenate([np.r_[np.ones(max(-x, 0)), np.zeros(3 - max(-x, 0))] for x in lead])
    ours = compare(Items(target, np.repeat(np.arange(400), 3)), first, second, accuracy)
    theirs = scipy.stats.ttest_1samp(lead / 3, 0)
    assert ours.p == pytest.approx(theirs.pvalue, rel=0.03)
    assert ours.se == pytest.approx(scipy.stats.sem(lead / 3), rel=0.01)


@pytest.mark.parametrize("n_units", [17, 50, 200])
@pytest.mark.parametrize("n_more", [1, 2, 3, 5])
def test_a_handful_of_photos_never_parts_two_models(n_units: int, n_more: int):
    """One photo of 114, of one whale of 17, made the page say that a model is better."""
    target = np.ones(n_units * 6, int)
    unit = np.arange(n_units * 6) % n_units
    second = np.zeros(n_units * 6, int)
    first = second.copy()
    first[:n_more] = 1
    ours = compare(Items(target, unit), first, second, accuracy)
    assert ours.n_discordant == n_more and ours.p > 0.05
    assert ours.low <= 0 <= ours.high


@given(
    st.integers(0, 10_000),
    st.integers(2, 60),
    st.integers(1, 5),
    st.sampled_from(LABEL_METRICS),
    st.floats(0.0, 0.4),
    st.sampled_from(["pooled", "mean"]),
)
def test_p_and_interval_always_agree(seed, n_units, size, name, lift, score):
    target, first, second = two_models(n_units * size, lift, seed)
    unit, part = np.arange(n_units * size) // size, np.arange(n_units * size) % 2
    ours = compare(Items(target, unit, part, score), first, second, load_metric(name))
    assert (ours.low <= 0 <= ours.high) == (ours.p > 0.05)
    assert ours.low <= ours.difference <= ours.high and 0 <= ours.p <= 1


@pytest.mark.parametrize("name", LABEL_METRICS)
@pytest.mark.parametrize("burst", [1, 5])
def test_turning_the_pair_round_turns_the_sign(name: str, burst: int):
    target, first, second = two_models()
    items = Items(target, np.arange(300) // burst)
    ours = compare(items, first, second, load_metric(name))
    turned = compare(items, second, first, load_metric(name))
    assert turned.p == pytest.approx(ours.p)
    expected = (-ours.difference, -ours.high, -ours.low)
    assert (turned.difference, turned.low, turned.high) == pytest.approx(expected)


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_a_model_against_itself(name: str):
    target, first, _ = two_models()
    ours = compare(Items(target, np.arange(300) // 3), first, first, load_metric(name))
    assert (ours.difference, ours.p, ours.n_discordant) == (0.0, 1.0, 0)
    assert ours.low < 0 < ours.high


def test_one_against_many_is_one_against_each():
    target, first, second = two_models()
    third = two_models(seed=3)[1]
    scores = errors(Items(target, np.arange(300) // 3), np.stack([first, second, third]), accuracy)
    pairs = compare_with(scores, 0, np.array([1, 2]))
    for place, other in enumerate((second, third)):
        alone = compare(Items(target, np.arange(300) // 3), first, other, accuracy)
        row = (pairs.difference[place], pairs.low[place], pairs.high[place], pairs.p[place])
        assert row == pytest.approx((alone.difference, alone.low, alone.high, alone.p), abs=1e-6)


def test_small_leads_on_many_tasks_add_up():
    """Three points on each of twenty tasks: no task shows it, all together do."""
    tasks = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        easy = random.random(300)
        right_mn = [(0.5 * easy + 0.5 * random.random(300) < x).astype(int) for x in (0.62, 0.59)]
        tasks.append(errors(Items(np.ones(300, int)), np.stack(right_mn), accuracy))
    alone = [compare_pair(task, 0, 1).is_clear for task in tasks]
    together = compare_pair(join(tasks, range(20)), 0, 1)
    assert sum(alone) < 10
    assert together.p < 0.001 and together.low > 0
    assert together.n == 6000


def test_less_can_be_better():
    target, first, second = two_models()

    def error_rate(target, prediction, weight=None):
        return float(np.average(target != prediction, weights=weight))

    error_rate.direction, error_rate.bounds, error_rate.kind = "down", (0.0, 1.0), "mean"
    ours = compare(Items(target), first, second, error_rate)
    assert ours.difference < 0 < ours.lead


def test_nothing_and_one_item():
    target, first, second = two_models(1)
    alone = compare(Items(target), first, second, accuracy)
    assert alone.p == 1.0 and math.isinf(alone.detectable)
    nothing = compare(Items(target[:0]), first[:0], second[:0], accuracy)
    assert nothing.n == 0 and math.isnan(nothing.difference) and nothing.p == 1.0

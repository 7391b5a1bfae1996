"""What rare classes, single units and dear mistakes may hide, against sums worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.metrics import load_metric, metric
from fieldmark.stats import (
    Items,
    compare,
    compare_pair,
    errors,
    estimate,
    interval,
    join,
    score_intervals,
)

macro_accuracy, macro_f1 = load_metric("macro_accuracy"), load_metric("macro_f1")


def ceiling(n_thin: int) -> np.ndarray:
    """Ten classes of 50 photos, and some of one."""
    return np.r_[np.repeat(np.arange(10), 50), 10 + np.arange(n_thin)]


def test_a_perfect_score_is_as_unsure_as_its_rarest_classes() -> None:
    target = ceiling(3)
    limits = interval(Items(target), target, macro_accuracy)
    assert limits.high == pytest.approx(1)
    assert limits.low <= 1 - 3 / 13 * (1 - 0.05 ** (1 / 3))
    assert interval(Items(target), target, load_metric("accuracy")).low > 0.99


def test_a_difference_is_as_unsure_as_the_rare_classes_both_know() -> None:
    target = ceiling(3)
    other = np.r_[np.full(10, 99), target[10:]]  # ten photos of a common class are missed
    found = compare(Items(target), target, other, macro_accuracy)
    hidden = 3 / 13 * (1 - 0.05 ** (1 / 3))
    assert found.is_clear and found.low > 0
    assert found.high == pytest.approx(found.difference + hidden)
    turned = compare(Items(target), other, target, macro_accuracy)
    assert (turned.low, turned.high) == (-found.high, -found.low)
    same = compare(Items(target), target, target, macro_accuracy)
    assert same.low <= -hidden and same.high >= hidden and same.p == 1


def test_classes_of_one_unit_have_no_f1_interval() -> None:
    target, unit = np.repeat(np.arange(8), 10), np.repeat(np.arange(16), 5)
    assert interval(Items(target, unit), target, macro_f1).low < 1
    limits = interval(Items(target, target), target, macro_f1)
    assert np.isnan(limits.low) and "8 of 8 classes come from one unit" in limits.why
    limits = interval(Items(target[::3]), target[::3], macro_f1)
    assert np.isnan(limits.low) and "8 of 8 classes have < 5 test images" in limits.why


def test_f1_changes_by_units_as_when_each_is_left_out() -> None:
    random = np.random.default_rng(3)
    class_u = random.integers(0, 12, 150)
    target, unit = np.repeat(class_u, 6), np.repeat(np.arange(150), 6)
    is_right = random.random(900) < np.repeat(random.beta(0.7, 0.3, 150), 6)
    answer = np.where(is_right, target, random.integers(0, 12, 900))
    found = errors(Items(target, unit), answer[None], macro_f1)
    gap_u = [
        found.value_m[0] - estimate(Items(target[unit != u]), answer[unit != u], macro_f1)
        for u in range(150)
    ]
    assert np.corrcoef(found.residual_mu[0], gap_u)[0, 1] > 0.98
    assert np.std(found.residual_mu[0]) == pytest.approx(np.std(gap_u), rel=0.1)


def test_frames_of_a_burst_do_not_vouch_for_its_f1() -> None:
    """Ten bursts of each species, all right or all wrong: the frames are no further draws."""
    random = np.random.default_rng(4)
    target, is_right_u = np.arange(100) % 10, random.random(100) < 0.7
    answer = np.where(is_right_u, target, (target + 1) % 10)
    few = interval(Items(target), answer, macro_f1)
    many = interval(
        Items(np.repeat(target, 8), np.repeat(np.arange(100), 8)), np.repeat(answer, 8), macro_f1
    )
    assert many.high - many.low == pytest.approx(few.high - few.low, rel=0.15)


def test_few_units_are_taken_for_as_alike_as_expected() -> None:
    """Five equal units of ten items, one wrong in each: the design effect observed is 1."""
    right_uk = np.ones((5, 10), int)
    right_uk[:, 0] = 0
    items = Items(np.ones(50, int), np.repeat(np.arange(5), 10))
    found = errors(items, right_uk.reshape(1, -1), load_metric("accuracy"))
    alone = (found.residual_mu**2).sum()  # 0: all units are alike
    assert alone == pytest.approx(0, abs=1e-12)
    item_variance = 0.9 * 0.1 / 50 * 4 / 5  # each held against the four other units
    expected = item_variance * (5 * 1 + 2 * (1 + 0.15 * 9)) / (5 + 2)
    assert found.own_m[0] == pytest.approx(expected, rel=1e-3)
    assert found.own_freedom_m[0] == pytest.approx(5 + 2)


def kinds_metric() -> object:
    @metric("cost", direction="down", bounds=(0.0, 1.0), takes_many=True, uses="kinds")
    def cost(target, prediction, weight=None):  # type: ignore[no-untyped-def]
        weight = np.ones(len(target)) if weight is None else weight
        worst = np.where(np.asarray(target) == 0, 100.0, 1.0)
        return (weight @ (worst * (target != prediction))) / (weight @ worst)

    return cost


def test_a_dear_mistake_that_did_not_happen_is_counted_in() -> None:
    target = np.r_[np.zeros(8, int), np.ones(92, int)]
    said = np.r_[np.zeros(8, int), np.ones(72, int), np.zeros(20, int)]  # 20 cheap mistakes
    limits = interval(Items(target), said, kinds_metric())  # type: ignore[arg-type]
    assert estimate(Items(target), said, kinds_metric()) == pytest.approx(20 / 892)  # type: ignore[arg-type]
    assert limits.high > 0.12  # one of the eight missed costs .11 more


def test_average_precision_needs_items_of_the_rarer_answer() -> None:
    metric_ap, random = load_metric("average_precision"), np.random.default_rng(0)
    target = np.r_[np.ones(19, int), np.zeros(60, int)]
    limits = interval(Items(target), random.random(79), metric_ap)
    assert np.isnan(limits.low) and "19 items of the rarer answer" in limits.why
    target = np.r_[1, target]
    assert interval(Items(target), random.random(80), metric_ap).low > 0


@pytest.mark.parametrize("name", ["accuracy", "macro_accuracy", "macro_f1"])
def test_many_models_at_once_give_what_each_gives_alone(name: str) -> None:
    random, score = np.random.default_rng(5), load_metric(name)
    target, unit = np.repeat(np.arange(40) % 4, 5), np.repeat(np.arange(40), 5)
    answers_mn = np.where(random.random((5, 200)) < 0.7, target, random.integers(0, 4, (5, 200)))
    items = Items(target, unit)
    together = errors(items, answers_mn, score)
    for model, limits in enumerate(score_intervals(together)):
        alone = interval(items, answers_mn[model], score)
        assert (limits.low, limits.high) == pytest.approx((alone.low, alone.high), rel=1e-5)
    pair, alone_pair = compare_pair(together, 3, 1), compare(items, *answers_mn[[3, 1]], score)
    assert pair.p == pytest.approx(alone_pair.p, rel=1e-4)
    assert pair.low == pytest.approx(alone_pair.low, rel=1e-4)


def test_the_order_of_items_and_a_name_of_units_change_nothing() -> None:
    random = np.random.default_rng(6)
    target, unit = random.integers(0, 5, 120), random.integers(0, 30, 120)
    answers_mn = np.where(random.random((2, 120)) < 0.6, target, (target + 1) % 5)
    order, name_u = random.permutation(120), random.permutation(30) + 7
    for name in ("accuracy", "macro_accuracy", "macro_f1"):
        score = load_metric(name)
        first = compare(Items(target, unit), *answers_mn, score)
        second = compare(Items(target[order], name_u[unit][order]), *answers_mn[:, order], score)
        assert second.p == pytest.approx(first.p, rel=1e-4)
        assert second.high == pytest.approx(first.high, rel=1e-4)


def test_one_task_joined_with_itself_is_that_task() -> None:
    """Two tasks on the same photos with the same answers tell no more than one of them."""
    random = np.random.default_rng(7)
    target, unit = random.integers(0, 5, 200), np.arange(200)
    answers_mn = np.where(random.random((2, 200)) < 0.6, target, (target + 1) % 5)
    one = errors(Items(target, unit), answers_mn, macro_accuracy)
    both, apart = join([one, one], ["a", "a"]), join([one, one], ["a", "b"])
    assert compare_pair(both, 0, 1).se == pytest.approx(compare_pair(one, 0, 1).se, rel=0.05)
    assert compare_pair(apart, 0, 1).se < 0.8 * compare_pair(one, 0, 1).se

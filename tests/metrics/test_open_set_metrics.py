"""The cost of wrong mushrooms, by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from fieldmark.metrics import load_metric

KINDS = np.array(["edible", "edible", "poisonous", "poisonous", "unknown"], dtype=object)
EDIBLE, OTHER, DEADLY, VILE, NEW = range(5)
LOSS: Callable[..., float] = partial(load_metric("user_loss"), kind=KINDS)
WORST = {EDIBLE: 2.0, DEADLY: 101.0, NEW: 11.0}


@pytest.mark.parametrize(
    ("target", "prediction", "cost"),
    [
        (EDIBLE, EDIBLE, 0),
        (DEADLY, DEADLY, 0),
        (NEW, NEW, 0),
        (EDIBLE, OTHER, 1),
        (EDIBLE, DEADLY, 1 + 1),
        (EDIBLE, NEW, 0.1),
        (DEADLY, VILE, 1),
        (DEADLY, EDIBLE, 1 + 100),
        (DEADLY, NEW, 0.1 + 100),
        (NEW, EDIBLE, 10),
        (NEW, DEADLY, 10 + 1),
        (EDIBLE, -1, 1),
        (DEADLY, -1, 1 + 100),
    ],
)
def test_each_mistake_has_its_price(target: int, prediction: int, cost: float) -> None:
    found = LOSS(np.array([target]), np.array([prediction]))
    assert found == pytest.approx(cost / WORST[target])


def brute_force(target: list[int], prediction: list[int]) -> float:
    cost = worst = 0.0
    for t, p in zip(target, prediction, strict=True):
        kinds = KINDS[t], KINDS[p]
        if t != p:
            cost += 10 if kinds[0] == "unknown" else 0.1 if kinds[1] == "unknown" else 1
        poison = [each == "poisonous" for each in kinds]
        cost += 100 if poison == [True, False] else 1 if poison == [False, True] else 0
        worst += (10 if kinds[0] == "unknown" else 1) + (100 if poison[0] else 1)
    return cost / worst


def test_it_is_the_share_of_the_worst_cost() -> None:
    random = np.random.default_rng(0)
    target, prediction = random.integers(0, 5, 500), random.integers(0, 5, 500)
    assert LOSS(target, prediction) == pytest.approx(brute_force(list(target), list(prediction)))
    weight = random.integers(0, 3, (4, 500))
    singly = [LOSS(np.repeat(target, each), np.repeat(prediction, each)) for each in weight]
    assert LOSS(target, prediction, weight) == pytest.approx(singly)
    assert 0 < LOSS(target, prediction) < 1
    assert np.isnan(LOSS(target[:0], prediction[:0]))


def test_less_is_better() -> None:
    metric = load_metric("user_loss")
    assert (metric.direction, metric.bounds, metric.uses) == ("down", (0.0, 1.0), "kinds")

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fieldmark.metrics import load_metric, metric
from fieldmark.stats import Items, Resampling, compare, holm, tiers
from kit.stats import ties_with_best

METRICS = ["accuracy", "macro_accuracy", "macro_f1"]
QUICK = Resampling(draws=150)


@metric("worst class", bounds=(0, 1))
def worst_class(target: Any, prediction: Any, weight: Any = None) -> float:
    """A user's own metric without a closed form; smooth enough to resample."""
    weight = np.ones(len(target)) if weight is None else weight
    right = np.bincount(target, weight * (target == prediction), 4)
    size = np.bincount(target, weight, 4)
    return float(np.mean((right / np.maximum(size, 1)) ** 2))


def answers(
    skills: list[float], n: int = 900, classes: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, n)
    right = random.random((len(skills), n)) < np.array(skills)[:, None]
    return target, np.where(right, target, (target + 1) % classes)


@pytest.mark.parametrize("burst", [1, 3, 30])
@pytest.mark.parametrize("each", [*map(load_metric, METRICS), worst_class])
def test_three_levels_get_three_letters(each: Any, burst: int) -> None:
    target, answers_mn = answers([0.5, 0.9, 0.52, 0.7, 0.9, 0.7])
    found = tiers(Items(target, np.arange(900) // burst), answers_mn, each, QUICK)
    assert "".join(found.letters) == "CACBAB"
    assert found.order[0] in (1, 4) and found.leaders[0] == found.order[0]
    assert [found.letters[leader] for leader in found.leaders] == ["A", "B", "C"]
    assert (np.diff(found.score[list(found.order)]) <= 0).all()


@pytest.mark.parametrize("each", [*map(load_metric, METRICS), worst_class])
def test_planted_better_model_leads_alone_and_equal_models_share(each: Any) -> None:
    target, answers_mn = answers([0.7] * 5 + [0.85] + [0.7] * 4)
    found = tiers(Items(target), answers_mn, each, QUICK)
    assert found.letters == ("B",) * 5 + ("A",) + ("B",) * 4
    copies = tiers(Items(target), np.stack([answers_mn[0]] * 4), each, QUICK)
    assert copies.letters == ("A",) * 4 and copies.leaders == (0,)
    assert copies.p_best.tolist() == copies.p_leader.tolist() == [1.0] * 4


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("name", METRICS)
def test_same_p_as_compare(name: str, burst: int) -> None:
    """What the quick figure leaves open is decided by the test that `compare` shows."""
    target, answers_mn = answers([0.80, 0.77, 0.75, 0.70], n=1200, seed=2)
    items, each = Items(target, np.arange(1200) // burst), load_metric(name)
    found = tiers(items, answers_mn, each)
    best = found.order[0]
    others = [model for model in range(4) if model != best]
    raw = [compare(items, answers_mn[best], answers_mn[model], each).p for model in others]
    decided = holm(raw, 6)
    for model, p in zip(others, decided, strict=True):
        assert (found.letters[model] == "A") == (p > 0.05)
        if 0.03 < p < 1:
            assert found.p_best[model] == pytest.approx(p, rel=0.15)


@pytest.mark.parametrize("name", METRICS)
def test_order_of_models_and_items_does_not_matter(name: str) -> None:
    target, answers_mn = answers([0.9, 0.5, 0.88, 0.7, 0.69])
    turned, each = np.random.default_rng(0).permutation(900), load_metric(name)
    found = tiers(Items(target), answers_mn, each)
    other = tiers(Items(target[turned]), answers_mn[::-1, turned], each)
    assert other.letters == found.letters[::-1]
    again = tiers(Items(target), answers_mn, each)
    assert again.letters == found.letters and (again.p_best == found.p_best).all()


def test_less_can_be_better() -> None:
    @metric("error rate", direction="down", kind="mean", bounds=(0, 1))
    def error_rate(target: Any, prediction: Any, weight: Any = None) -> float:
        return float(np.average(target != prediction, weights=weight))

    target, answers_mn = answers([0.5, 0.9, 0.9])
    assert tiers(Items(target), answers_mn, error_rate).letters == ("B", "A", "A")


def test_parts_and_unanswered_items() -> None:
    target, answers_mn = answers([0.9, 0.9, 0.5])
    answers_mn[1, ::10] = -1
    items = Items(target, np.arange(900) // 2, np.arange(900) // 300, "mean")
    for name in METRICS:
        found = tiers(items, answers_mn, load_metric(name))
        assert found.letters[0] == "A" and found.letters[2] != "A"


@pytest.mark.parametrize("name", METRICS)
def test_scores_are_those_of_the_metric(name: str) -> None:
    target, answers_mn = answers([0.9, 0.5], classes=9)
    answers_mn[0, :5] = 12
    each = load_metric(name)
    found = tiers(Items(target), answers_mn, each).score
    assert found.tolist() == pytest.approx([each(target, answer) for answer in answers_mn])


def test_few_units_are_exact() -> None:
    """Five cameras cannot part two models: the smallest p is 2 / 32."""
    target, answers_mn = answers([0.95, 0.4], n=500)
    for name in METRICS:
        five = tiers(Items(target, np.arange(500) // 100), answers_mn, load_metric(name))
        assert five.p_best[1] == pytest.approx(2 / 32)
        eight = tiers(Items(target, np.arange(500) // 63), answers_mn, load_metric(name))
        assert eight.letters == ("A", "B")


def test_edges() -> None:
    target, answers_mn = answers([0.9])
    one = tiers(Items(target), answers_mn, load_metric("macro_f1"))
    assert (one.letters, one.order, one.leaders) == (("A",), (0,), (0,))
    nothing = tiers(Items(np.zeros(0, int)), np.zeros((2, 0), int), load_metric("accuracy"))
    assert nothing.letters == ("A", "A")
    with pytest.raises(ValueError, match="no models"):
        tiers(Items(target), np.zeros((0, 900), int), load_metric("accuracy"))
    with pytest.raises(ValueError, match="expected models × items"):
        tiers(Items(target), answers_mn[:, :5], load_metric("accuracy"))


def test_ties_are_the_first_tier() -> None:
    target, answers_mn = answers([0.5, 0.9, 0.88])
    by_name = dict(zip("abc", answers_mn, strict=True))
    found = ties_with_best(Items(target), by_name, load_metric("macro_f1"))
    letters = tiers(Items(target), answers_mn, load_metric("macro_f1")).letters
    assert set(found.tied) == {n for n, each in zip("abc", letters, strict=True) if each == "A"}

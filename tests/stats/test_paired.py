from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats

from fieldmark.metrics import load_metric, metric
from fieldmark.stats import Items, Resampling, compare, holm, interval
from kit.stats import ties_with_best

accuracy = load_metric("accuracy")
macro_f1 = load_metric("macro_f1")
LABEL_METRICS = ["accuracy", "macro_accuracy", "macro_f1"]
QUICK = Resampling(draws=300)


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


def test_mcnemar_equals_scipy() -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 3, 150)
    first, second = (
        np.where(random.random(150) < right, target, (target + 1) % 3) for right in (0.8, 0.7)
    )
    ours = compare(Items(target), first, second, accuracy, QUICK)
    n_first = int(((first == target) & (second != target)).sum())
    n_second = int(((first != target) & (second == target)).sum())
    assert ours.test == "mcnemar"
    assert ours.p == pytest.approx(scipy.stats.binomtest(n_first, n_first + n_second, 0.5).pvalue)
    assert ours.difference == pytest.approx((n_first - n_second) / 150)


@pytest.mark.parametrize("n_more", [3, 5, 9])
def test_interval_and_exact_test_agree_on_few_disagreements(n_more: int) -> None:
    target, second = np.ones(300, int), np.r_[np.zeros(50, int), np.ones(250, int)]
    first = second.copy()
    first[:n_more] = 1
    ours = compare(Items(target), first, second, accuracy)
    assert (ours.low > 0) == (ours.p < 0.05) == (n_more == 9)


@pytest.mark.parametrize("name", LABEL_METRICS)
@pytest.mark.parametrize("score", ["pooled", "mean"])
def test_sign_flip_equals_all_swaps(name: str, score: Any) -> None:
    """Ten units can be swapped in 1,024 ways: the sampled share must be near the exact one."""
    random = np.random.default_rng(4)
    target = random.integers(0, 3, 40)
    first, second = (
        np.where(random.random(40) < right, target, (target + 1) % 3) for right in (0.85, 0.6)
    )
    unit, part = np.arange(40) // 4, np.arange(40) // 20
    items, each = Items(target, unit, part, score), load_metric(name)

    def difference(swap_u: tuple[bool, ...]) -> float:
        swap = np.array(swap_u)[unit]
        ours, theirs = np.where(swap, second, first), np.where(swap, first, second)
        if score == "pooled":
            return each(target, ours) - each(target, theirs)
        halves = [slice(0, 20), slice(20, 40)]
        return float(
            np.mean([each(target[h], ours[h]) - each(target[h], theirs[h]) for h in halves])
        )

    found = difference((False,) * 10)
    every = np.array([difference(swap) for swap in product([False, True], repeat=10)])
    exact = (np.abs(every) >= abs(found) - 1e-12).mean()
    ours = compare(items, first, second, each, Resampling(draws=1500))
    assert ours.test == "sign-flip"
    assert ours.difference == pytest.approx(found)
    assert ours.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 1500) + 1e-3)


@pytest.mark.parametrize("name", LABEL_METRICS)
@pytest.mark.parametrize("burst", [1, 5])
def test_turning_the_pair_round_turns_the_sign(name: str, burst: int) -> None:
    target, first, second = two_models()
    items = Items(target, np.arange(300) // burst)
    ours = compare(items, first, second, load_metric(name), QUICK)
    other = compare(items, second, first, load_metric(name), QUICK)
    assert ours.difference == pytest.approx(-other.difference)
    assert ours.p == pytest.approx(other.p, abs=0.05)
    assert (ours.low, ours.high) == pytest.approx((-other.high, -other.low), abs=0.02)
    assert ours.low <= ours.difference <= ours.high


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_order_and_seed(name: str) -> None:
    target, first, second = two_models()
    unit = np.arange(300) // 3
    order = np.random.default_rng(0).permutation(300)
    ours, again, shuffled = (
        compare(Items(target[o], unit[o]), first[o], second[o], load_metric(name), QUICK)
        for o in (np.arange(300), np.arange(300), order)
    )
    assert ours == again
    assert (shuffled.low, shuffled.high, shuffled.p) == pytest.approx((ours.low, ours.high, ours.p))


@pytest.mark.parametrize("name", LABEL_METRICS)
@pytest.mark.parametrize("burst", [1, 3])
def test_a_model_against_itself(name: str, burst: int) -> None:
    target, first, _ = two_models()
    items = Items(target, np.arange(300) // burst)
    ours = compare(items, first, first, load_metric(name), QUICK)
    assert (ours.difference, ours.p) == (0.0, 1.0)
    assert ours.low < 0 < ours.high
    assert ours.high < 0.05


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_one_item_and_none(name: str) -> None:
    one = Items(np.array([2]))
    ours = compare(one, np.array([2]), np.array([0]), load_metric(name), QUICK)
    assert ours.difference == 1.0 and ours.p == 1.0
    assert -1 <= ours.low < 0.5 and ours.high == 1.0
    nothing = np.array([], int)
    empty = compare(Items(nothing), nothing, nothing, load_metric(name), QUICK)
    assert np.isnan(empty.difference) and empty.p == 1.0


@pytest.mark.parametrize("each", [accuracy, macro_f1], ids=["accuracy", "macro_f1"])
def test_defect_fresh_draws_for_each_model(each: Any) -> None:
    """Shared draws: what both models find hard cancels, so a real difference is seen."""
    target, first, second = two_models(lift=0.15)
    unit = np.arange(300) // 2
    ours = compare(Items(target, unit), first, second, each, QUICK)
    alone = [interval(Items(target, unit), guess, each, QUICK) for guess in (first, second)]
    unpaired = np.hypot(alone[0].half_width, alone[1].half_width)
    assert (ours.high - ours.low) / 2 < 0.6 * unpaired
    assert ours.low > 0
    assert ours.p < 0.05


class TestTies:
    def models(self) -> tuple[Items, dict[str, np.ndarray]]:
        random = np.random.default_rng(0)
        target = random.integers(0, 4, 600)
        right = {"low": 0.5, "good": 0.8, "best": 0.82}
        guesses = {
            name: np.where(random.random(600) < share, target, (target + 1) % 4)
            for name, share in right.items()
        }
        return Items(target), guesses

    @pytest.mark.parametrize("name", LABEL_METRICS)
    def test_who_ties(self, name: str) -> None:
        items, guesses = self.models()
        found = ties_with_best(items, guesses, load_metric(name), QUICK)
        assert found.best == "best"
        assert found.tied == ("best", "good")
        assert set(found.p) == {"low", "good"}
        assert found.p["low"] < 0.05 < found.p["good"]

    @pytest.mark.parametrize("each", [accuracy, macro_f1], ids=["accuracy", "macro_f1"])
    def test_many_models_can_still_be_parted(self, each: Any) -> None:
        """190 pairs of 20 models: 100 draws alone could never give a p below 0.05 / 190."""
        random = np.random.default_rng(0)
        target = random.integers(0, 4, 400)
        guesses = {
            str(model): np.where(random.random(400) < 0.5, target, (target + 1) % 4)
            for model in range(19)
        }
        guesses["clear"] = np.where(random.random(400) < 0.95, target, 0)
        items = Items(target, np.arange(400) // 2)
        found = ties_with_best(items, guesses, each, Resampling(draws=100))
        assert found.tied == ("clear",)

    def test_less_can_be_better(self) -> None:
        @metric("error rate", direction="down", kind="mean", bounds=(0, 1))
        def error_rate(target: Any, prediction: Any, weight: Any = None) -> float:
            return float(np.average(target != prediction, weights=weight))

        items, guesses = self.models()
        assert ties_with_best(items, guesses, error_rate).tied == ("best", "good")

    def test_one_model_and_none(self) -> None:
        items, guesses = self.models()
        found = ties_with_best(items, {"best": guesses["best"]}, accuracy)
        assert (found.best, found.tied, dict(found.p)) == ("best", ("best",), {})
        with pytest.raises(ValueError, match="no models"):
            ties_with_best(items, {}, accuracy)

    def test_holm_is_step_down(self) -> None:
        raw = {"a": 0.01, "b": 0.04, "c": 0.03}
        assert holm(list(raw.values())).tolist() == pytest.approx([0.03, 0.06, 0.06])
        assert holm([0.9], 4).tolist() == [1.0]

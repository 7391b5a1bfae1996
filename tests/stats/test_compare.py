from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from fieldmark.metrics import load_metric, metric
from fieldmark.stats import Items, Resampling, compare, estimate, items_to_detect
from fieldmark.stats.influence import lead_values
from fieldmark.stats.power import detectable_share

METRICS = ["accuracy", "macro_accuracy", "macro_f1"]
accuracy = load_metric("accuracy")
QUICK = Resampling(draws=200)


@metric("error rate", direction="down", kind="mean", bounds=(0, 1))
def error_rate(target: Any, prediction: Any, weight: Any = None) -> float:
    return float(np.average(target != prediction, weights=weight))


@metric("geometric", bounds=(0, 1))
def geometric(target: Any, prediction: Any, weight: Any = None) -> float:
    """A user's own metric: no mean over items, no closed form."""
    weight = np.ones(len(target)) if weight is None else weight
    recall = [
        np.average(prediction[target == each] == each, weights=weight[target == each])
        for each in np.unique(target[weight > 0])
    ]
    return float(np.exp(np.mean(np.log(np.maximum(recall, 1e-3)))))


def models(
    n: int = 400, a: float = 0.8, b: float = 0.65, classes: int = 5, seed: int = 0
) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, n)
    hard = random.random(n)
    guesses = (
        np.where(0.7 * hard + 0.3 * random.random(n) < skill, target, (target + 1) % classes)
        for skill in (a, b)
    )
    return target, *guesses


class TestFigures:
    def test_mcnemar_equals_scipy(self) -> None:
        target, a, b = models()
        found = compare(Items(target), a, b, accuracy)
        n_a, n_b = (((x == target) & (y != target)).sum() for x, y in ((a, b), (b, a)))
        assert (found.test, found.n_discordant) == ("mcnemar", n_a + n_b)
        assert found.p == pytest.approx(scipy.stats.binomtest(n_a, n_a + n_b).pvalue)
        assert "McNemar" in found.method
        assert found.difference == pytest.approx((n_a - n_b) / 400)
        assert (found.n, found.n_units, found.is_clear) == (400, 400, True)

    @pytest.mark.parametrize("name", METRICS)
    @pytest.mark.parametrize("burst", [1, 4])
    def test_difference_is_that_of_the_scores(self, name: str, burst: int) -> None:
        target, a, b = models()
        each, items = load_metric(name), Items(target, np.arange(400) // burst)
        found = compare(items, a, b, each, QUICK)
        assert found.difference == pytest.approx(each(target, a) - each(target, b))
        assert found.low <= found.difference <= found.high
        assert found.n_units == 400 // burst

    @pytest.mark.parametrize("score", ["pooled", "mean"])
    @pytest.mark.parametrize("name", METRICS)
    def test_leads_add_up_to_the_difference(self, name: str, score: Any) -> None:
        """Exactly, and for F1 to the third order in how differently the models answer."""
        target, a, b = models(600, 0.8, 0.75)
        a[::50] = -1
        items = Items(target, None, np.arange(600) % 3, score)
        each = load_metric(name)
        total = float(np.sum(lead_values(items, a, b, each)))
        value = estimate(items, a, each) - estimate(items, b, each)
        assert total == pytest.approx(value, rel=1e-9 if name != "macro_f1" else 0.01)

    def test_the_same_interval_by_many_shared_draws(self) -> None:
        """The closed form stands for resamples: with many items they agree."""
        target, a, b = models(3000)
        each = load_metric("macro_f1")
        random, drawn = np.random.default_rng(0), []
        for _ in range(400):
            pick = random.integers(0, 3000, 3000)
            drawn.append(each(target[pick], a[pick]) - each(target[pick], b[pick]))
        found = compare(Items(target), a, b, each)
        assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(drawn), rel=0.12)

    def test_agrees_with_scipy_on_a_mean(self) -> None:
        random = np.random.default_rng(1)
        lead_u = random.normal(0.05, 0.3, 150)

        @metric("given", kind="mean")
        def given(target: Any, prediction: Any, weight: Any = None) -> float:
            return float(np.average(prediction, weights=weight))

        found = compare(Items(np.arange(150)), lead_u, np.zeros(150), given, Resampling(draws=9000))
        theirs = scipy.stats.bootstrap((lead_u,), np.mean, method="percentile", rng=random)
        low, high = theirs.confidence_interval
        assert (found.low, found.high) == pytest.approx((low, high), abs=0.004)
        assert found.p == pytest.approx(scipy.stats.ttest_1samp(lead_u, 0).pvalue, rel=0.1)

    def test_less_can_be_better(self) -> None:
        target, a, b = models()
        found = compare(Items(target), a, b, error_rate)
        assert found.difference < 0 < found.lead
        assert found.direction == "down"
        same = compare(Items(target), a, b, accuracy)
        assert (found.p, found.n_discordant) == (same.p, same.n_discordant)
        assert (found.low, found.high) == pytest.approx((-same.high, -same.low))

    def test_any_metric_of_a_user(self) -> None:
        target, a, b = models()
        found = compare(Items(target), a, b, geometric, QUICK)
        assert found.difference == pytest.approx(geometric(target, a) - geometric(target, b))
        assert found.low > 0 and found.is_clear
        assert "shared resamples" in found.method
        equal = compare(Items(target), a, a, geometric, QUICK)
        assert (equal.difference, equal.p, equal.n_discordant) == (0.0, 1.0, 0)


class TestInvariance:
    @pytest.mark.parametrize("name", METRICS)
    def test_copies_within_a_unit_do_not_matter(self, name: str) -> None:
        target, a, b = models(90)
        unit, each = np.arange(90) // 3, load_metric(name)
        once = compare(Items(target, unit), a, b, each, QUICK)
        more = compare(
            Items(np.tile(target, 3), np.tile(unit, 3)), np.tile(a, 3), np.tile(b, 3), each, QUICK
        )
        for field in ("difference", "low", "high", "p", "detectable", "n_discordant", "n_units"):
            assert getattr(more, field) == pytest.approx(getattr(once, field)), field

    @pytest.mark.parametrize("each", [*map(load_metric, METRICS), geometric])
    def test_order_and_seed(self, each: Any) -> None:
        target, a, b = models(120)
        unit, order = np.arange(120) // 2, np.random.default_rng(0).permutation(120)
        ours, again, shuffled = (
            compare(Items(target[o], unit[o]), a[o], b[o], each, QUICK)
            for o in (np.arange(120), np.arange(120), order)
        )
        assert ours == again
        assert (shuffled.low, shuffled.high, shuffled.p) == pytest.approx(
            (ours.low, ours.high, ours.p)
        )


class TestPower:
    @pytest.mark.slow
    def test_a_visible_difference_is_seen_four_times_in_five(self) -> None:
        random, rate, n = np.random.default_rng(0), 0.2, 1000
        least = detectable_share(int(rate * n), n)
        n_a = random.binomial(n, (rate + least) / 2, 4000)
        n_b = random.binomial(n - n_a, (rate - least) / 2 / (1 - (rate + least) / 2))
        seen = [
            scipy.stats.binomtest(a, a + b).pvalue <= 0.05 for a, b in zip(n_a, n_b, strict=True)
        ]
        assert np.mean(seen) == pytest.approx(0.8, abs=0.03)

    @pytest.mark.parametrize("name", ["macro_accuracy", "macro_f1"])
    def test_spread_of_leads_gives_the_same_for_a_share(self, name: str) -> None:
        """With classes of one size a macro metric is nearly the share, and so is its power."""
        target, a, b = models(2000, 0.71, 0.70)
        share = compare(Items(target), a, b, accuracy).detectable
        assert compare(Items(target), a, b, load_metric(name)).detectable == pytest.approx(
            share, rel=0.1
        )

    def test_four_times_the_items_halve_it(self) -> None:
        target, a, b = models()
        found = compare(Items(target), a, b, accuracy)
        assert found.n_to_halve == 1600
        four = compare(Items(np.tile(target, 4)), np.tile(a, 4), np.tile(b, 4), accuracy)
        assert four.detectable == pytest.approx(found.detectable / 2, rel=0.03)
        assert found.n_to_detect(found.detectable / 3) == 3600
        with pytest.raises(ValueError, match="more than 0"):
            items_to_detect(0.1, 100, 0.0)

    def test_few_disagreements_can_show_nothing_smaller_than_six(self) -> None:
        assert detectable_share(2, 100) >= 0.06
        assert detectable_share(0, 100) > 0
        assert detectable_share(0, 0) == 1.0

    def test_one_unit_shows_nothing(self) -> None:
        target, a, b = models(20)
        found = compare(Items(target, np.zeros(20)), a, b, load_metric("macro_f1"), QUICK)
        assert (found.n_units, found.p, found.is_clear) == (1, 1.0, False)
        assert not np.isfinite(found.detectable) and found.n_to_halve == 0


@pytest.mark.parametrize("n", [49, 98, 103, 107])
def test_mcnemar_whatever_the_number_of_items(n: int) -> None:
    """1 / 49 * 49 is not 1 in floating point."""
    target, a, b = models(n)
    assert compare(Items(target), a, b, accuracy).test == "mcnemar"

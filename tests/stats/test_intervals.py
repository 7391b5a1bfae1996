from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmark import stats
from fieldmark.metrics import load_metric, metric
from fieldmark.stats import Items, Resampling, bootstrap, estimate, interval, wilson
from fieldmark.stats.interval import percentile_limits

accuracy = load_metric("accuracy")
macro_f1 = load_metric("macro_f1")
LABEL_METRICS = ["accuracy", "macro_accuracy", "macro_f1"]
QUICK = Resampling(draws=200)


def zipf(n: int, classes: int, seed: int, right: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, classes + 1)
    target = random.choice(classes, n, p=share / share.sum())
    prediction = np.where(random.random(n) < right, target, random.integers(0, classes, n))
    return target, prediction


def drawn_by_hand(
    items: Items, prediction: np.ndarray, metric: Any, draws: int, seed: int = 0
) -> np.ndarray:
    """The bootstrap as a textbook writes it: pick units, copy out their items, score."""
    random = np.random.default_rng(seed)
    unit, part = items.unit_codes(), items.part_codes()
    members = [np.flatnonzero(unit == each) for each in range(unit.max() + 1)]
    part_of = np.array([part[each[0]] for each in members])
    values = []
    for _ in range(draws):
        chosen: list[np.ndarray] = []
        for each in np.unique(part):
            mine = np.flatnonzero(part_of == each)
            chosen += [members[pick] for pick in random.choice(mine, len(mine))]
        rows = np.concatenate(chosen)
        again = Items(items.target[rows], None, part[rows], items.score)
        values.append(estimate(again, prediction[rows], metric))
    return np.array(values)


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


class TestWhichMethod:
    def test_a_share_without_clusters_is_wilson(self) -> None:
        target, prediction = zipf(80, 5, 0)
        ours = interval(Items(target), prediction, accuracy)
        assert ours == wilson(int((target == prediction).sum()), 80)
        named = interval(
            Items(target, np.array([f"i{i}" for i in range(80)])), prediction, accuracy
        )
        assert named == ours

    def test_clusters_means_and_other_metrics_are_bootstrapped(self) -> None:
        target, prediction = zipf(80, 5, 0)
        unit, part = np.arange(80) // 4, np.arange(80) % 2
        assert interval(Items(target, unit), prediction, accuracy, QUICK).method == "bootstrap"
        assert interval(Items(target, unit), prediction, accuracy, QUICK).n_units == 20
        mean = interval(Items(target, None, part, "mean"), prediction, accuracy, QUICK)
        assert (mean.method, mean.n, mean.n_units) == ("bootstrap", 80, 80)
        assert interval(Items(target), prediction, macro_f1, QUICK).method == "leave-one-out"

    def test_a_mean_of_other_values_is_bootstrapped(self) -> None:
        @metric("partial credit", kind="mean", bounds=(0, 1))
        def credit(target: Any, prediction: Any, weight: Any = None) -> float:
            return float(np.average(1 / (1 + np.abs(target - prediction)), weights=weight))

        target, prediction = zipf(80, 5, 0)
        ours = interval(Items(target), prediction, credit, Resampling(draws=4000))
        assert ours.method == "bootstrap"
        values = 1 / (1 + np.abs(target - prediction))
        spread = values.std() / np.sqrt(80)
        assert ours.half_width == pytest.approx(1.99 * spread, rel=0.08)


class TestBootstrap:
    @pytest.mark.parametrize("score", ["pooled", "mean"])
    @pytest.mark.parametrize("name", LABEL_METRICS)
    @pytest.mark.parametrize("burst", [1, 4])
    def test_same_law_as_drawing_by_hand(self, name: str, score: Any, burst: int) -> None:
        target, prediction = zipf(120, 4, 1)
        items = Items(target, np.arange(120) // burst, np.arange(120) % 3, score)
        ours = bootstrap(items, prediction, load_metric(name), Resampling(draws=1000))
        by_hand = drawn_by_hand(items, prediction, load_metric(name), 1000)
        value = estimate(items, prediction, load_metric(name))
        low, high = np.quantile(by_hand, [0.025, 0.975]) + value - by_hand.mean()
        width = high - low
        # The limits of two sets of 1,000 draws differ by 4 % of the width (one standard error).
        assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.17 * width)

    def test_equals_scipy_on_a_share(self) -> None:
        target = np.ones(400, int)
        prediction = (np.arange(400) < 312).astype(int)
        theirs = scipy.stats.bootstrap(
            ((target == prediction).astype(float),),
            np.mean,
            n_resamples=10_000,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
        ours = bootstrap(Items(target), prediction, accuracy, Resampling(draws=10_000))
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.0035)

    def test_same_seed_same_limits_other_seed_others(self) -> None:
        target, prediction = zipf(200, 8, 0)
        first, again, other = (
            bootstrap(Items(target), prediction, macro_f1, Resampling(draws=200, seed=seed))
            for seed in (0, 0, 1)
        )
        assert first == again != other
        task = Resampling(draws=200, task="newt")
        assert bootstrap(Items(target), prediction, macro_f1, task) != first

    @pytest.mark.parametrize("name", LABEL_METRICS)
    def test_order_of_items_does_not_matter(self, name: str) -> None:
        target, prediction = zipf(150, 6, 0)
        unit, part = np.arange(150) // 3, np.arange(150) // 60
        order = np.random.default_rng(0).permutation(150)
        ours, shuffled = (
            bootstrap(
                Items(target[o], unit[o], part[o], "mean"), prediction[o], load_metric(name), QUICK
            )
            for o in (np.arange(150), order)
        )
        assert ours == shuffled

    @pytest.mark.parametrize("name", LABEL_METRICS)
    @pytest.mark.parametrize("times", [2, 5])
    def test_copies_within_a_unit_do_not_matter(self, name: str, times: int) -> None:
        target, prediction = zipf(90, 6, 0)
        unit = np.arange(90) // 3
        once = bootstrap(Items(target, unit), prediction, load_metric(name), QUICK)
        more = bootstrap(
            Items(np.tile(target, times), np.tile(unit, times)),
            np.tile(prediction, times),
            load_metric(name),
            QUICK,
        )
        assert (more.low, more.high) == pytest.approx((once.low, once.high), abs=1e-12)
        assert (more.n, more.n_units) == (90 * times, 30)

    def test_names_of_units_do_not_matter(self) -> None:
        target, prediction = zipf(90, 6, 0)
        numbers = np.arange(90) // 3
        names = np.array([f"camera {each}" for each in numbers], dtype=object)
        ours, named = (
            bootstrap(Items(target, unit), prediction, accuracy, QUICK) for unit in (numbers, names)
        )
        assert ours == named

    @pytest.mark.parametrize(
        "unit",
        [
            np.array([None, None, "a", "a", "None"], dtype=object),
            np.array([np.nan, np.nan, 1.0, 1.0, 2.0]),
        ],
    )
    def test_an_item_without_a_unit_is_its_own(self, unit: np.ndarray) -> None:
        target = np.array([0, 1, 0, 1, 1])
        assert bootstrap(Items(target, unit), target, accuracy, QUICK).n_units == 4

    def test_parts_are_never_lost(self) -> None:
        """Drawn within parts: each keeps its size, so a small part cannot vanish."""
        target = np.zeros(103, int)
        prediction = np.r_[np.zeros(100, int), np.ones(3, int)]
        part = np.r_[np.zeros(100, int), np.ones(3, int)]
        ours = bootstrap(Items(target, None, part, "mean"), prediction, accuracy, QUICK)
        assert estimate(Items(target, None, part, "mean"), prediction, accuracy) == 0.5
        assert ours.low <= 0.5 <= ours.high


class TestLimits:
    def test_resamples_that_sit_beside_the_estimate_are_moved_onto_it(self) -> None:
        beside = np.random.default_rng(0).normal(0.6, 0.02, 4000)
        low, high = percentile_limits(0.8, beside, Items(np.zeros(1000)), Resampling(), (0, 1))
        assert (low, high) == pytest.approx((0.8 - 0.0392, 0.8 + 0.0392), abs=0.003)

    def test_they_stay_within_bounds_and_hold_the_estimate(self) -> None:
        beside = np.random.default_rng(0).normal(0.6, 0.02, 4000)
        high = percentile_limits(0.99, beside, Items(np.zeros(1000)), Resampling(), (0, 1))[1]
        assert high == 1.0
        # All but a handful of replicates agree: both percentiles lie on one side of the mean.
        skewed = np.r_[np.full(1990, 0.9), np.zeros(10)]
        low, high = percentile_limits(0.9, skewed, Items(np.zeros(1000)), Resampling(), (0, 1))
        assert low == 0.9 < high

    @pytest.mark.parametrize("n_units", [6, 8, 12])
    def test_few_units_are_as_wide_as_students_t(self, n_units: int) -> None:
        n_right = np.linspace(60, 90, n_units).round().astype(int)
        prediction = np.concatenate([np.arange(100) < each for each in n_right]).astype(int)
        unit = np.repeat(np.arange(n_units), 100)
        ours = interval(Items(np.ones(100 * n_units, int), unit), prediction, accuracy)
        spread = (n_right / 100).std(ddof=1) / np.sqrt(n_units)
        expected = scipy.stats.t.ppf(0.975, n_units - 1) * spread
        assert ours.half_width == pytest.approx(expected, rel=0.15)


class TestEdges:
    @pytest.mark.parametrize("name", LABEL_METRICS)
    @pytest.mark.parametrize("is_right", [True, False])
    @pytest.mark.parametrize("burst", [1, 5])
    def test_all_right_or_all_wrong_is_not_certainty(
        self, name: str, is_right: bool, burst: int
    ) -> None:
        target = np.arange(60) % 3
        prediction = target if is_right else (target + 1) % 3
        ours = interval(Items(target, np.arange(60) // burst), prediction, load_metric(name), QUICK)
        edge = wilson(60 // burst if is_right else 0, 60 // burst)
        assert (ours.low, ours.high) == pytest.approx((edge.low, edge.high))

    @pytest.mark.parametrize("name", LABEL_METRICS)
    @pytest.mark.parametrize("prediction", [0, 1, -1])
    def test_one_item(self, name: str, prediction: int) -> None:
        ours = interval(Items(np.array([1])), np.array([prediction]), load_metric(name), QUICK)
        assert 0 <= ours.low <= float(prediction == 1) <= ours.high <= 1
        assert ours.half_width > 0.3

    def test_one_unit_says_little(self) -> None:
        prediction = np.r_[np.zeros(80, int), np.ones(20, int)]
        ours = interval(Items(np.zeros(100, int), np.zeros(100)), prediction, accuracy)
        assert ours.n_units == 1
        assert ours.low < 0.1 and ours.high == 1.0

    @pytest.mark.parametrize("name", LABEL_METRICS)
    def test_no_item(self, name: str) -> None:
        nothing = np.array([], int)
        for each in (Items(nothing), Items(nothing, nothing, nothing, "mean")):
            ours = interval(each, nothing, load_metric(name), QUICK)
            assert (ours.low, ours.high, ours.n) == (0.0, 1.0, 0)

    @settings(max_examples=60, deadline=None)
    @given(
        st.integers(0, 10_000),
        st.integers(1, 40),
        st.integers(1, 5),
        st.sampled_from(LABEL_METRICS),
        st.sampled_from(["pooled", "mean"]),
    )
    def test_defect_point_estimate_outside_its_interval(
        self, seed: int, n: int, burst: int, name: str, score: Any
    ) -> None:
        target, prediction = zipf(n, 6, seed)
        items = Items(target, np.arange(n) // burst, np.arange(n) % 2, score)
        value = estimate(items, prediction, load_metric(name))
        ours = interval(items, prediction, load_metric(name), Resampling(draws=30, seed=seed))
        assert 0 <= ours.low <= value <= ours.high <= 1

    def test_mistakes(self) -> None:
        with pytest.raises(ValueError, match=r"unit has the shape \(2,\), target \(3,\)"):
            Items(np.zeros(3), unit=np.zeros(2))
        with pytest.raises(ValueError, match="expected 'pooled' or 'mean'"):
            Items(np.zeros(3), score="sum")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="level between 0 and 1"):
            Resampling(level=95)

    def test_public_names(self) -> None:
        assert stats.__all__ == sorted(stats.__all__)
        assert all(hasattr(stats, name) for name in stats.__all__)


def test_mean_over_parts_is_the_mean_of_the_parts() -> None:
    target, prediction = zipf(90, 3, 0)
    part = np.r_[np.zeros(60), np.ones(30)]
    by_part = [macro_f1(target[part == each], prediction[part == each]) for each in (0, 1)]
    assert estimate(Items(target, None, part, "mean"), prediction, macro_f1) == pytest.approx(
        np.mean(by_part)
    )
    assert estimate(Items(target, None, part), prediction, macro_f1) == pytest.approx(
        macro_f1(target, prediction)
    )


def test_defect_macro_f1_long_tail_point_outside_and_too_narrow() -> None:
    """Nine draws averaged per replicate made intervals 3 times too narrow, beside the estimate."""
    target, prediction = zipf(1000, 100, 3)
    value = macro_f1(target, prediction)
    ours = bootstrap(Items(target), prediction, macro_f1, Resampling(draws=400))
    by_hand = drawn_by_hand(Items(target), prediction, macro_f1, 400)
    assert ours.low < value < ours.high
    assert ours.half_width == pytest.approx(1.96 * by_hand.std(), rel=0.2)


def test_defect_interval_ignores_the_statistic() -> None:
    target, prediction = zipf(300, 20, 0)
    ours, other = (
        bootstrap(Items(target), prediction, each, QUICK) for each in (accuracy, macro_f1)
    )
    assert abs(ours.low - other.low) > 0.02


def test_defect_interval_builds_a_draws_x_n_table() -> None:
    """2,000 x 150,000 indices would be 2.4 GB."""
    target, prediction = zipf(150_000, 50, 0)
    tracemalloc.start()
    bootstrap(Items(target), prediction, accuracy)
    bootstrap(Items(target), prediction, macro_f1, Resampling(draws=20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6

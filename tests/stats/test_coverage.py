"""Do intervals that claim 95 % hold the truth 95 times in 100? Seeds are fixed; bands are wide
enough for the number of repetitions, and narrow enough to catch a method that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, Resampling, compare, interval
from kit.stats import ties_with_best

accuracy = load_metric("accuracy")
REPEATS = 300


def bursts(
    random: np.random.Generator, n_units: int, size: int, right: float, alike: float
) -> np.ndarray:
    """0/1 answers whose correlation within a burst is `alike`."""
    if size == 1:
        return (random.random(n_units) < right).astype(int)
    total = 1 / alike - 1
    share_u = random.beta(right * total, (1 - right) * total, n_units)
    return (random.random((n_units, size)) < share_u[:, None]).astype(int).ravel()


def coverage(n_units: int, size: int, right: float, alike: float, is_clustered: bool) -> float:
    random = np.random.default_rng(20)
    unit = np.repeat(np.arange(n_units), size) if is_clustered else None
    n_held = 0
    for repeat in range(REPEATS):
        answer = bursts(random, n_units, size, right, alike)
        settings = Resampling(draws=500, seed=repeat)
        found = interval(Items(np.ones(len(answer), int), unit), answer, accuracy, settings)
        n_held += found.low <= right <= found.high
    return n_held / REPEATS


@pytest.mark.parametrize(
    ("n_units", "size", "right"),
    [(30, 1, 0.9), (100, 1, 0.95), (1000, 1, 0.9), (200, 3, 0.8), (60, 10, 0.8)],
)
def test_accuracy_is_covered(n_units: int, size: int, right: float) -> None:
    assert 0.92 <= coverage(n_units, size, right, 0.6, is_clustered=size > 1) <= 0.98


def test_frames_of_bursts_are_not_independent() -> None:
    """The reason for units: by single frames the interval holds the truth far too seldom."""
    assert coverage(60, 10, 0.8, 0.6, is_clustered=False) < 0.75


def test_few_units_are_widened() -> None:
    assert coverage(8, 20, 0.8, 0.4, is_clustered=True) > 0.87


def test_mean_over_parts_is_covered() -> None:
    random, n_held = np.random.default_rng(5), 0
    right_p = np.linspace(0.6, 0.95, 10)
    part = np.repeat(np.arange(10), 40)
    for repeat in range(REPEATS):
        answer = (random.random(400) < right_p[part]).astype(int)
        items = Items(np.ones(400, int), None, part, "mean")
        found = interval(items, answer, accuracy, Resampling(draws=500, seed=repeat))
        n_held += found.low <= right_p.mean() <= found.high
    assert 0.92 <= n_held / REPEATS <= 0.975


def long_tail(
    random: np.random.Generator, n: int, classes: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    share = 1 / np.arange(1, classes + 1)
    target = random.choice(classes, n, p=share / share.sum())
    return target, np.where(random.random(n) < 0.7, target, random.integers(0, classes, n))


@pytest.mark.parametrize(("name", "least"), [("macro_f1", 0.7), ("macro_accuracy", 0.78)])
def test_long_tail_is_mostly_covered(name: str, least: float) -> None:
    """A plain percentile bootstrap with a fixed label list covers 1 % here."""
    metric, random = load_metric(name), np.random.default_rng(7)
    truth = metric(*long_tail(random, 1_000_000))
    n_held = 0
    for repeat in range(80):
        target, prediction = long_tail(random, 500)
        found = interval(Items(target), prediction, metric, Resampling(draws=150, seed=repeat))
        n_held += found.low <= truth <= found.high
    assert n_held / 80 >= least


def alarms(name: str, size: int, repeats: int, draws: int) -> tuple[float, float]:
    """How often equal models are told apart: by the test, by the interval of the difference."""
    metric, random = load_metric(name), np.random.default_rng(11)
    n_test, n_interval, n = 0, 0, 240
    unit = np.arange(n) // size
    for repeat in range(repeats):
        target = random.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
        guesses = []
        for _ in range(2):
            right = bursts(random, n // size, size, 0.7, 0.5) == 1
            guesses.append(np.where(right, target, (target + 1) % 4))
        settings = Resampling(draws=draws, seed=repeat)
        found = compare(Items(target, unit), *guesses, metric, settings)
        n_test += found.p <= 0.05
        n_interval += not found.low <= 0 <= found.high
    return n_test / repeats, n_interval / repeats


@pytest.mark.parametrize("size", [1, 6])
def test_equal_models_seldom_alarm(size: int) -> None:
    by_test, by_interval = alarms("accuracy", size, repeats=400, draws=300)
    assert by_test <= 0.06
    assert by_interval <= 0.075


def test_equal_models_seldom_alarm_on_macro_f1() -> None:
    by_test, by_interval = alarms("macro_f1", 6, repeats=60, draws=150)
    assert by_test <= 0.1
    assert by_interval <= 0.12


@pytest.mark.parametrize(
    ("n", "only_first", "only_second"),
    [(30, 0.1, 0.1), (100, 0.02, 0.02), (100, 0.1, 0.05), (300, 0.013, 0.0), (1000, 0.03, 0.02)],
)
def test_difference_of_shares_is_covered(n: int, only_first: float, only_second: float) -> None:
    random, n_held = np.random.default_rng(2), 0
    for _ in range(REPEATS):
        luck = random.random(n)
        first, second = luck < only_first, (luck >= only_first) & (luck < only_first + only_second)
        items = Items(np.ones(n, int))
        found = compare(items, first.astype(int), second.astype(int), accuracy)
        n_held += found.low <= only_first - only_second <= found.high
    assert n_held / REPEATS >= 0.93


def test_the_best_of_equal_models_is_not_called_better() -> None:
    """Choosing the best by looking parts 13 in 100 of ten equal models if only its own
    comparisons are counted."""
    random, n_parted = np.random.default_rng(3), 0
    for _ in range(150):
        easy = random.random(300) < 0.5
        answers = {
            str(model): (easy | (random.random(300) < 0.6)).astype(int) for model in range(10)
        }
        n_parted += len(ties_with_best(Items(np.ones(300, int)), answers, accuracy).tied) < 10
    assert n_parted / 150 <= 0.06

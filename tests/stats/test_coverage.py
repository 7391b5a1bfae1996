"""Do intervals that claim 95 % hold the truth 95 times in 100? Seeds are fixed; bands are wide
enough for the number of repetitions, and narrow enough to catch a method that is wrong. The large
table of such simulations is that of `test_calibration`; these worlds are drawn apart from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, compare, interval

accuracy, macro_accuracy = load_metric("accuracy"), load_metric("macro_accuracy")
REPEATS = 250
Draw = tuple[Items, np.ndarray]


def held(draw: Callable[[np.random.Generator], Draw], truth: float, name: str) -> float:
    """How often the interval of a score holds its truth."""
    random, metric, n_held = np.random.default_rng(20), load_metric(name), 0
    for _ in range(REPEATS):
        limits = interval(*draw(random), metric)
        n_held += limits.low <= truth <= limits.high
    return n_held / REPEATS


def bursts(random: np.random.Generator, n_units: int, size: int, right: float) -> np.ndarray:
    """0/1 answers (units × frames) whose correlation within a burst is .5."""
    share_u = random.beta(right, 1 - right, n_units)
    return (random.random((n_units, size)) < share_u[:, None]).astype(int)


@pytest.mark.parametrize(("n", "right"), [(30, 0.9), (100, 0.95), (1000, 0.9)])
def test_accuracy_is_held(n: int, right: float) -> None:
    def draw(random: np.random.Generator) -> Draw:
        return Items(np.ones(n, int)), (random.random(n) < right).astype(int)

    assert 0.91 <= held(draw, right, "accuracy") <= 0.985


def test_as_many_photos_of_every_class_are_a_stratified_sample() -> None:
    """Classes are fixed: between easy and hard ones nothing could have been otherwise."""
    target = np.repeat(np.arange(20), 10)
    chance_n = np.linspace(0.1, 1.0, 20)[target]

    def draw(random: np.random.Generator) -> Draw:
        return Items(target), np.where(random.random(200) < chance_n, target, 20)

    assert 0.91 <= held(draw, float(chance_n.mean()), "accuracy") <= 0.985
    items, answers = draw(np.random.default_rng(3))
    found, by_class = (interval(items, answers, load) for load in (accuracy, macro_accuracy))
    assert (found.low, found.high) == pytest.approx((by_class.low, by_class.high), abs=0.005)
    uneven = interval(Items(target[1:]), answers[1:], accuracy)
    assert uneven.method == "wilson" and found.half_width < 0.85 * uneven.half_width
    in_bursts = Items(target, np.arange(200) // 5)
    assert interval(in_bursts, answers, accuracy).half_width > found.half_width


@pytest.mark.parametrize(("n_units", "most"), [(8, 1.0), (60, 0.98)])
def test_accuracy_in_bursts_is_held_by_units_and_not_by_frames(n_units: int, most: float) -> None:
    def draw(random: np.random.Generator) -> Draw:
        answers = bursts(random, n_units, 10, 0.8).ravel()
        return Items(np.ones(len(answers), int), np.repeat(np.arange(n_units), 10)), answers

    def draw_frames(random: np.random.Generator) -> Draw:
        items, answers = draw(random)
        return Items(items.target), answers

    assert 0.91 <= held(draw, 0.8, "accuracy") <= most
    assert held(draw_frames, 0.8, "accuracy") < 0.75


@pytest.mark.parametrize("n_classes", [6, 40])
def test_macro_accuracy_of_bursts_with_one_species_each_is_held(n_classes: int) -> None:
    """Frames of one burst do not vouch for their species; at 40, a species is an individual."""

    def draw(random: np.random.Generator) -> Draw:
        target = np.repeat(np.arange(40) % n_classes, 10)
        is_right = bursts(random, 40, 10, 0.7).ravel() == 1
        return Items(target, np.repeat(np.arange(40), 10)), np.where(is_right, target, n_classes)

    assert 0.91 <= held(draw, 0.7, "macro_accuracy") <= 0.985


def test_a_fish_is_one_unit_in_all_its_traits() -> None:
    def draw(random: np.random.Generator) -> Draw:
        answers_tu = bursts(random, 60, 6, 0.75).T
        unit, part = np.tile(np.arange(60), 6), np.repeat(np.arange(6), 60)
        items = Items(np.ones(360, int), unit, part, "mean")
        return items, answers_tu.ravel()

    def draw_apart(random: np.random.Generator) -> Draw:
        items, answers = draw(random)
        return Items(items.target, None, items.part, "mean"), answers

    assert 0.91 <= held(draw, 0.75, "accuracy") <= 0.985
    assert held(draw_apart, 0.75, "accuracy") < 0.8


def test_trainings_are_a_sample_too() -> None:
    """Five trainings on the same 150 photos; their scores differ by more than photos explain."""

    def draw(random: np.random.Generator) -> Draw:
        chance_rn = 0.7 + random.normal(0, 0.05, (5, 1)) + random.normal(0, 0.1, 150)
        answers = (random.random((5, 150)) < chance_rn).astype(int).ravel()
        unit, repeat = np.tile(np.arange(150), 5), np.repeat(np.arange(5), 150)
        return Items(np.ones(750, int), unit, repeat=repeat), answers

    def draw_once(random: np.random.Generator) -> Draw:
        items, answers = draw(random)
        return Items(items.target, items.unit), answers

    assert 0.91 <= held(draw, 0.7, "accuracy") <= 0.99
    assert held(draw_once, 0.7, "accuracy") < 0.9


@pytest.mark.parametrize("name", ["accuracy", "macro_accuracy", "macro_f1"])
def test_equal_models_are_seldom_told_apart(name: str) -> None:
    random, metric, n_clear = np.random.default_rng(11), load_metric(name), 0
    class_u = np.arange(60) % 6
    target, unit = np.repeat(class_u, 6), np.repeat(np.arange(60), 6)
    for _ in range(REPEATS):
        answers = [
            np.where(bursts(random, 60, 6, 0.7).ravel() == 1, target, (target + 1) % 6)
            for _ in range(2)
        ]
        found = compare(Items(target, unit), answers[0], answers[1], metric)
        n_clear += found.is_clear
        assert found.is_clear == (not found.low <= 0 <= found.high)
    assert n_clear / REPEATS <= 0.075


@pytest.mark.parametrize(
    ("n", "only_first", "only_second"),
    [(30, 0.1, 0.1), (100, 0.02, 0.02), (100, 0.1, 0.05), (300, 0.013, 0.0), (1000, 0.03, 0.02)],
)
def test_difference_of_shares_is_held(n: int, only_first: float, only_second: float) -> None:
    random, n_held = np.random.default_rng(2), 0
    for _ in range(REPEATS):
        luck = random.random(n)
        first, second = luck < only_first, (luck >= only_first) & (luck < only_first + only_second)
        items = Items(np.ones(n, int))
        found = compare(items, first.astype(int), second.astype(int), accuracy)
        n_held += found.low <= only_first - only_second <= found.high
    assert n_held / REPEATS >= 0.92


@pytest.mark.parametrize("n_units", [5, 17, 60])
def test_one_photo_never_parts_two_models(n_units: int) -> None:
    """The demo's belugas: one photo of 114 differed, and the interval left 0 out."""
    answers = np.ones(n_units * 7, int)
    other = answers.copy()
    other[3] = 0
    items = Items(np.ones(len(answers), int), np.repeat(np.arange(n_units), 7))
    found = compare(items, answers, other, accuracy)
    assert not found.is_clear
    assert found.low <= 0 < found.difference <= found.high

"""Is a difference called visible seen 4 times in 5, and are as many units as advised enough?"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, UnitSpread, compare
from fieldmark.stats.power import detectable
from kit.rings import mostly_slow

ACCURACY = load_metric("accuracy")
SIZE = 8
"""items of a unit"""


def answers(
    random: np.random.Generator, n_units: int, size: int, rate: float, icc: float, lead: float
) -> tuple[Items, np.ndarray, np.ndarray]:
    """Items on which one of two models is right at that rate, a the oftener by `lead`; differences
    within a unit are alike."""
    only_a, only_b = (rate + lead) / 2, (rate - lead) / 2
    shared, own = random.normal(size=(n_units, 1)), random.normal(size=(n_units, size))
    z = (math.sqrt(icc) * shared + math.sqrt(1 - icc) * own).ravel()
    is_a, is_b = z > scipy.stats.norm.isf(only_a), z < scipy.stats.norm.ppf(only_b)
    target, unit = np.zeros(len(z), int), np.repeat(np.arange(n_units), size)
    return Items(target, unit), np.where(is_b, 1, 0), np.where(is_a, 1, 0)


def seen(n_units: int, size: int, rate: float, icc: float, lead: float, n: int) -> float:
    """How often `compare` tells the two apart."""
    random = np.random.default_rng(7)
    made = (answers(random, n_units, size, rate, icc, lead) for _ in range(n))
    return float(np.mean([compare(*one, ACCURACY).p <= 0.05 for one in made]))


def middle(n_units: int, size: int, rate: float, icc: float) -> UnitSpread:
    """What a pilot of equal models measures, in the middle of many."""
    random = np.random.default_rng(5)
    pilots = [
        compare(*answers(random, n_units, size, rate, icc, 0), ACCURACY).spread for _ in range(200)
    ]
    return sorted(pilots, key=lambda spread: spread.detectable(n_units))[100]


@pytest.mark.parametrize("n_units", mostly_slow([12, 16, 40, 100], 16))
@pytest.mark.parametrize(("size", "icc"), [(1, 0.0), (SIZE, 0.1), (SIZE, 0.5)])
def test_a_visible_difference_is_seen_four_times_in_five(
    n_units: int, size: int, icc: float
) -> None:
    rate = 0.4 if n_units < 40 else 0.2
    least = middle(n_units, size, rate, icc).detectable(n_units)
    assert seen(n_units, size, max(rate, least), icc, least, 200) >= 0.72
    if n_units >= 40:
        assert seen(n_units, size, max(rate, least), icc, least, 200) <= 0.90


@pytest.mark.parametrize(("size", "icc"), [(1, 0.0), (SIZE, 0.1), (SIZE, 0.5)])
def test_as_many_units_as_advised_show_the_wanted_difference(size: int, icc: float) -> None:
    wanted = 0.05
    n_units = middle(60, size, 0.2, icc).units_to_detect(wanted)
    assert n_units > 60
    assert 0.73 <= seen(n_units, size, 0.2, icc, wanted, 300) <= 0.87


def test_nothing_is_visible_below_six_units_that_differ() -> None:
    assert detectable(0.1, 4, 5, 5) == math.inf
    assert detectable(0.1, 0, 1, 1) == math.inf
    for n_units in (17, 100, 10_000):
        for n_discordant in range(6):
            se = math.sqrt(n_discordant + 2) / n_units
            assert detectable(se, n_units - 1, n_units, n_discordant) >= 6 / n_units - 1e-12
        assert detectable(0.0, n_units - 1, n_units, 0) >= 6 / n_units - 1e-12


def test_units_that_all_lean_one_way_alike_do_not_make_all_visible() -> None:
    """Their spread is 0, which says nothing of smaller differences."""
    assert detectable(0.0, 99, 100, 100, difference=0.1) == pytest.approx(0.0284, abs=0.001)
    assert detectable(0.0, 99, 100, 100, difference=0.1) > 6 * 0.1 / 100


def test_more_units_show_less_and_the_advice_is_the_fewest_that_do() -> None:
    spread = UnitSpread.measured(0.03, 24, 30, 12, 0.01)
    visible = [spread.detectable(n) for n in range(6, 500)]
    assert visible == sorted(visible, reverse=True)
    for wanted in (0.2, 0.05, 0.02, 0.001):
        n = spread.units_to_detect(wanted)
        assert spread.detectable(n) <= wanted
        assert n == 6 or spread.detectable(n - 1) > wanted
    with pytest.raises(ValueError, match="expected more than 0"):
        spread.units_to_detect(0.0)


def test_more_units_do_not_lessen_the_luck_of_training() -> None:
    """Half of the variance is of five training draws."""
    luck = 0.02 / math.sqrt(2)
    spread = UnitSpread.measured(0.02, 8.0, 400, 80, draws=(luck, 5))
    assert spread.luck == pytest.approx(luck**2)
    assert spread.detectable(400) == pytest.approx(detectable(0.02, 8.0, 400, 80), rel=0.02)
    least = (scipy.stats.t.ppf(0.975, 4) + scipy.stats.t.ppf(0.8, 4)) * luck
    assert spread.detectable(10**11) == pytest.approx(least, rel=0.01)
    assert spread.units_to_detect(0.9 * least) is None
    needed = spread.units_to_detect(1.1 * least)
    assert needed is not None and needed > 400


def test_assumed_spread_is_the_measured_one_of_such_a_world() -> None:
    random = np.random.default_rng(1)
    n_units, size = 3000, 5
    unit = np.repeat(np.arange(n_units), size)
    shared = random.random(n_units)[unit] < 0.3  # the whole unit alike, in 3 of 10
    lead = np.where(shared, random.choice(3, n_units, p=(0.1, 0.8, 0.1))[unit],
                    random.choice(3, n_units * size, p=(0.1, 0.8, 0.1))) - 1  # fmt: skip
    a, b = np.where(lead < 0, 1, 0), np.where(lead > 0, 1, 0)
    measured = compare(Items(np.zeros(len(unit), int), unit), a, b, ACCURACY).spread
    assumed = UnitSpread.assumed(unit, np.full(len(unit), 1 / len(unit)))
    assert assumed.variance == pytest.approx(measured.variance, rel=0.1)
    assert assumed.discordance == pytest.approx(measured.discordance, rel=0.15)  # one of each: none
    assert assumed.effective == pytest.approx(1)
    uneven = UnitSpread.assumed(np.repeat([0, 1, 2, 3], [7, 1, 1, 1]), np.full(10, 0.1))
    assert uneven.effective == pytest.approx(1 / (0.52 * 4))

"""Scores near their end, in clusters: exact without a mistake, and monotone in their number."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, errors, interval, score_intervals

accuracy = load_metric("accuracy")


def limits(size_u: list[int], order: np.ndarray) -> list[tuple[float, float]]:
    """Low and high limit with 0, 1, ... all photos wrong, which go wrong in that order."""
    unit = np.repeat(np.arange(len(size_u)), size_u)
    n = len(unit)
    answers = np.tril(np.ones((n + 1, n), int), -1)[:, np.argsort(order)]
    found = score_intervals(errors(Items(np.zeros(n, int), unit), answers, accuracy))
    return [(one.low, one.high) for one in found]


@pytest.mark.parametrize(("n_units", "size"), [(20, 5), (50, 5), (100, 2), (268, 2), (8, 10)])
@pytest.mark.parametrize("how", ["spread", "packed", "random"])
def test_more_mistakes_never_have_the_better_limits(n_units: int, size: int, how: str) -> None:
    n = n_units * size
    place = np.arange(n)
    order = {
        "spread": np.argsort(place % size, kind="stable"),
        "packed": place,
        "random": np.random.default_rng(0).permutation(n),
    }[how]
    found = limits([size] * n_units, order)
    assert found[0][1] == 1.0 and found[-1][0] == 0.0
    # A mistake in the first new unit after one that is all wrong says that units are less alike.
    off = {"spread": 0.0001, "packed": 0.01, "random": 0.006}[how]
    for fewer, more in pairwise(found):
        assert more[0] <= fewer[0] + off and more[1] <= fewer[1] + off


@pytest.mark.parametrize(("n_units", "size"), [(100, 2), (268, 2), (1000, 2)])
def test_no_mistake_has_the_exact_limit(n_units: int, size: int) -> None:
    """Of as many items as these are worth where those of a unit correlate by 0.6."""
    unit = np.repeat(np.arange(n_units), size)
    right = np.ones(len(unit), int)
    found = interval(Items(right, unit), right, accuracy)
    assert found.low == pytest.approx(0.025 ** (1.6 / (n_units * size)), abs=1e-6)
    wrong = interval(Items(right, unit), 1 - right, accuracy)
    assert (wrong.low, wrong.high) == pytest.approx((0.0, 1 - found.low))


def test_uneven_units_count_for_fewer() -> None:
    """One animal has half of the photos: as many even ones as would weigh so much."""
    size_u = [40] + [2] * 20
    unit = np.repeat(np.arange(21), size_u)
    right = np.ones(80, int)
    low = interval(Items(right, unit), right, accuracy).low
    n_effective = 80 / (1 + 0.6 * (sum(size**2 for size in size_u) / 80 - 1))
    assert low == pytest.approx(0.025 ** (1 / n_effective))

"""Weights and blocks of units, for functions of lists."""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.stats import Items, Resampling, jackknife_limits, unit_blocks, unit_weights

UNITS = np.array(["a", "b", "a", "c", "b", "d"], dtype=object)


def _items(n: int, unit: np.ndarray | None = None, part: np.ndarray | None = None) -> Items:
    return Items(np.zeros(n, int), unit=unit, part=part)


def _all(items: Items, n: int) -> np.ndarray:
    return np.concatenate(list(unit_weights(items, Resampling(n))))


def test_items_of_a_unit_have_one_weight_and_as_many_units_are_drawn():
    weight = _all(_items(6, UNITS), 500)
    assert weight.shape == (500, 6)
    assert (weight[:, 0] == weight[:, 2]).all() and (weight[:, 1] == weight[:, 4]).all()
    assert (weight[:, [0, 1, 3, 5]].sum(axis=1) == 4).all()
    assert weight.mean(axis=0) == pytest.approx(np.ones(6), abs=0.15)


def test_many_items_come_in_blocks_and_equal_settings_give_equal_draws():
    items = _items(40_000)
    blocks = list(unit_weights(items, Resampling(120)))
    assert len(blocks) > 1 and sum(map(len, blocks)) == 120
    again = np.concatenate(list(unit_weights(items, Resampling(120))))
    np.testing.assert_array_equal(np.concatenate(blocks), again)
    other = np.concatenate(list(unit_weights(items, Resampling(120, seed=1))))
    assert (again != other).any()


def test_nothing_has_no_weights():
    assert list(unit_weights(_items(0), Resampling(10))) == []


def test_blocks_hold_whole_units_and_are_even():
    unit = np.arange(100) // 2
    block = unit_blocks(_items(100, unit), 10, Resampling())
    assert np.bincount(block).tolist() == [10] * 10
    assert (block[::2] == block[1::2]).all()


def test_the_jackknife_of_a_mean_is_students_interval():
    """Leaving out one at a time gives a mean's own standard error."""
    from scipy import stats

    value_n = np.random.default_rng(1).normal(3, 2, 30)
    without = (value_n.sum() - value_n) / 29
    low, high = jackknife_limits(value_n.mean(), without, 0.95, (-np.inf, np.inf))
    expected = stats.t.interval(0.95, 29, value_n.mean(), stats.sem(value_n))
    assert (low, high) == pytest.approx(expected)
    assert jackknife_limits(value_n.mean(), without, 0.95, (2.5, 3.0)) == (2.5, 3.0)

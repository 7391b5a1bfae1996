from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmark.stats import permutation
from fieldmark.stats.permutation import sign_flip


def by_hand(lead: np.ndarray) -> float:
    signs = np.array(list(product([-1, 1], repeat=len(lead))))
    return float((np.abs(signs @ np.abs(lead)) >= abs(lead.sum()) - 1e-9).mean())


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
@settings(deadline=None)
def test_few_units_are_exact(lead: list[float]) -> None:
    given = np.array(lead)
    given[np.abs(given) < 1e-3] = 0
    assert sign_flip(given) == pytest.approx(by_hand(given))


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (2, 3), (1, 2, 3, 10), (3, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_whole_numbers_are_exact(sizes: tuple[int, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    lead = random.choice(sizes, 18) * random.choice([-1, 1], 18, p=[0.25, 0.75]) / 700
    exact = permutation._all_signs(np.abs(lead), abs(lead.sum()))
    assert sign_flip(lead) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tail", [1.0, 3.0])
def test_saddlepoint_is_near_for_twenty_units(seed: int, tail: float) -> None:
    random = np.random.default_rng(seed)
    lead = random.random(20) ** tail * random.choice([-1, 1], 20, p=[0.2, 0.8])
    exact = permutation._all_signs(np.abs(lead), abs(lead.sum()))
    assert sign_flip(lead) == pytest.approx(exact, rel=0.15 if exact > 1e-3 else 0.5)


@pytest.mark.parametrize("n_more", [60, 120, 260])
def test_far_tails_equal_the_binomial(n_more: int) -> None:
    """A p of one in a million is known, not only bounded: 100 models need it."""
    lead = np.r_[np.ones(500 + n_more), -np.ones(500 - n_more // 2)]
    exact = scipy.stats.binomtest(500 + n_more, len(lead)).pvalue
    assert sign_flip(lead) == pytest.approx(exact, rel=1e-6)
    shaken = lead * np.random.default_rng(0).uniform(0.999, 1.001, len(lead))
    assert sign_flip(shaken) == pytest.approx(exact, rel=0.3)


def test_all_one_way_and_none() -> None:
    assert sign_flip(np.zeros(5)) == 1.0
    assert sign_flip(np.array([])) == 1.0
    assert sign_flip(np.random.default_rng(0).random(40)) == pytest.approx(2.0**-39)


def test_order_and_sign_do_not_matter() -> None:
    lead = np.random.default_rng(0).normal(0.2, 1, 300)
    assert sign_flip(lead[::-1]) == pytest.approx(sign_flip(lead))
    assert sign_flip(-lead) == pytest.approx(sign_flip(lead))

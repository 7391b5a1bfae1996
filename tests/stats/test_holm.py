from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.stats import holm

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(p_values)
def test_holm_is_the_largest_scaled_p_so_far(p: list[float]) -> None:
    """By hand: rank k of n counts n - k times, and no p is less than a smaller one's."""
    by_hand = np.empty(len(p))
    so_far = 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=lambda each: p[each])):
        so_far = max(so_far, min(1.0, (len(p) - rank) * p[place]))
        by_hand[place] = so_far
    np.testing.assert_allclose(holm(p), by_hand, atol=1e-12)


def test_known_figures() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0


@given(p_values)
def test_holm_is_stricter_than_benjamini_hochberg(p: list[float]) -> None:
    assert (holm(p) >= scipy.stats.false_discovery_control(p) - 1e-12).all()


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([0.2, 1.2])
    with pytest.raises(ValueError, match="from 0 to 1"):
        holm([float("nan")])

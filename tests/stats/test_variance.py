from __future__ import annotations

import numpy as np
import pytest

from fieldmark.stats import variance_parts


def drawn(
    repeats: int, items: int, training: float, hard: float, seed: int, noise: float = 0.3
) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (
        0.7
        + random.normal(0, training, (repeats, 1))
        + random.normal(0, hard, (1, items))
        + random.normal(0, noise, (repeats, items))
    )


def test_both_spreads_are_found() -> None:
    parts = [variance_parts(drawn(8, 200, 0.05, 0.4, seed)) for seed in range(200)]
    test = np.sqrt(np.mean([each.test_sd**2 for each in parts]))
    training = np.sqrt(np.mean([each.training_sd**2 for each in parts]))
    assert test == pytest.approx(0.4 / np.sqrt(200), rel=0.05)
    assert training == pytest.approx(np.hypot(0.05, 0.3 / np.sqrt(200)), rel=0.1)


@pytest.mark.parametrize(("training", "hard"), [(0.05, 0.4), (0.0, 0.4), (0.1, 0.0)])
def test_interval_holds_other_trainings_and_other_items(training: float, hard: float) -> None:
    found = [variance_parts(drawn(5, 150, training, hard, seed)) for seed in range(600)]
    held = np.mean([each.low <= 0.7 <= each.high for each in found])
    assert 0.92 <= held <= 0.985


def test_items_alone_would_be_too_narrow() -> None:
    """The reason for repeats: a spread of trainings that no test set can show."""
    n_held = 0
    for seed in range(200):
        one = variance_parts(drawn(1, 400, 0.1, 0.3, seed))
        n_held += one.low <= 0.7 <= one.high
    assert n_held / 200 < 0.7


def test_units_are_one_draw() -> None:
    value = drawn(5, 60, 0.05, 0.3, 0)
    copied = np.repeat(value, 4, axis=1)
    unit = np.repeat(np.arange(60), 4)
    once, more = variance_parts(value), variance_parts(copied, unit)
    assert (more.low, more.high, more.test_sd, more.training_sd) == pytest.approx(
        (once.low, once.high, once.test_sd, once.training_sd)
    )
    assert (more.n_units, more.n_repeats) == (60, 5)
    uneven = variance_parts(value, np.r_[np.zeros(20), np.arange(40)])
    assert uneven.value == pytest.approx(value.mean())


def test_words() -> None:
    assert "mostly the test items" in variance_parts(drawn(5, 50, 0.0, 0.9, 1)).words
    assert "mostly the training" in variance_parts(drawn(5, 5000, 0.2, 0.1, 1)).words
    one = variance_parts(drawn(1, 50, 0.0, 0.5, 1))
    assert "not known" in one.words and np.isnan(one.training_sd)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 4)])
def test_small_tables_hold_their_value(shape: tuple[int, int]) -> None:
    found = variance_parts(np.random.default_rng(0).random(shape))
    assert found.low <= found.value <= found.high
    assert variance_parts(np.ones(shape)).value == 1.0


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="repeats × items"):
        variance_parts(np.zeros(4))
    with pytest.raises(ValueError, match="unit has 2 entries, values 3 items"):
        variance_parts(np.zeros((2, 3)), np.zeros(2))

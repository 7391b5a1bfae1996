"""Many draws from one pool against one nearest-centroid fit for each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid

from fieldmark.errors import DataError, UsageError
from fieldmark.probes import Normaliser
from fieldmark.probes.simpleshot import SimpleShot, predict_repeats

STEPS = [(), ("l2",), ("centre",), ("centre", "l2"), ("l2", "centre", "l2"), ("standardise", "l2")]


def pool(seed: int = 0, n_each: int = 6, classes: int = 12, dim: int = 10) -> tuple:  # type: ignore[type-arg]
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes) * 7, n_each)
    centres = random.normal(size=(classes, dim))
    x = centres[y // 7] + random.normal(size=(len(y), dim)) + 3
    test = centres[random.integers(0, classes, 80)] + random.normal(size=(80, dim)) + 3
    draws = [
        np.concatenate([at * n_each + random.permutation(n_each)[:2] for at in range(classes)])
        for _ in range(4)
    ]
    return x, y, draws, test


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.filterwarnings("ignore")
def test_equals_scikit_learn(steps: tuple[str, ...], dtype: type, shots: int) -> None:
    x, y, draws, test = pool()
    x, test = x.astype(dtype), test.astype(dtype)
    draws = [each if shots == 2 else each[::2] for each in draws]
    ours = predict_repeats(x, y, draws, test, steps)
    for answer, rows in zip(ours, draws, strict=True):
        train = x[rows].astype(np.float64)
        fitted = Normaliser(steps).fit(train)
        theirs = NearestCentroid().fit(fitted.transform(train), y[rows])
        assert (answer == theirs.predict(fitted.transform(test.astype(np.float64)))).all()


@given(seed=st.integers(0, 10_000), steps=st.sampled_from([(), ("centre",), ("centre", "l2")]))
def test_ties_fall_as_with_one_probe_per_draw(seed: int, steps: tuple[str, ...]) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(-1, 2, size=(12, 2)).astype(float)
    y = random.permutation(12) % 5
    test = random.integers(-1, 2, size=(9, 2)).astype(float)
    draws = [random.permutation(12)[: random.integers(1, 12)] for _ in range(3)]
    for answer, rows in zip(predict_repeats(x, y, draws, test, steps), draws, strict=True):
        fitted = Normaliser(steps).fit(x[rows])
        probe = SimpleShot().fit(fitted.transform(x[rows]), y[rows])
        distance = probe.decision_function(fitted.transform(test))
        if len(probe.classes_) < 3:
            continue
        column = np.searchsorted(probe.classes_, answer)
        best = distance.max(axis=1)
        np.testing.assert_allclose(distance[np.arange(9), column], best, atol=1e-12)


def test_equal_rows_go_to_the_first_class_and_zeros_do_no_harm() -> None:
    x = np.full((6, 3), 0.1, np.float32)
    with np.errstate(all="raise"):
        answers = predict_repeats(x, list("cabcab"), [[0, 1, 2], [3, 5]], x[:2] * 0)
    assert answers.tolist() == [["a", "a"], ["b", "b"]]


def test_a_class_outside_the_draw_is_not_predicted() -> None:
    x, y, _, test = pool()
    assert set(predict_repeats(x, y, [[0, 1, 6]], test)[0]) == {0, 7}
    assert predict_repeats(x, y, [], test).shape == (0, 80)
    assert predict_repeats(x, y, [[0, 6]], test[:0]).shape == (1, 0)


def test_mistakes_get_one_line() -> None:
    x, y, _, test = pool()
    with pytest.raises(UsageError, match="expected a list of row numbers, at least one"):
        predict_repeats(x, y, [[]], test)
    with pytest.raises(UsageError, match="names row 72: the pool has rows 0 to 71"):
        predict_repeats(x, y, [[0, 72]], test)
    with pytest.raises(DataError, match="test features have 3 columns, the pool has 10"):
        predict_repeats(x, y, [[0]], test[:, :3])
    with pytest.raises(UsageError, match="'center' is not known"):
        predict_repeats(x, y, [[0]], test, ["center"])

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid

from fieldmark.probes import Normaliser
from fieldmark.probes.simpleshot import SimpleShot


def brute_force(x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    classes = sorted(set(y.tolist()))
    means = [x[y == each].astype(np.float64).mean(axis=0) for each in classes]
    answers = []
    for query in queries.astype(np.float64):
        distances = [((query - mean) ** 2).sum() for mean in means]
        answers.append(classes[int(np.argmin(distances))])
    return np.array(answers)


@given(
    st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]), st.sampled_from([0, 1000])
)
def test_equals_brute_force(seed: int, dtype: type, offset: int) -> None:
    random = np.random.default_rng(seed)
    x = (random.normal(size=(30, 5)) + offset).astype(dtype)
    y = random.integers(0, 6, 30) * 17
    queries = (random.normal(size=(20, 5)) + offset).astype(dtype)
    assert (SimpleShot().fit(x, y).predict(queries) == brute_force(x, y, queries)).all()


def test_equals_scikit_learn() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(500, 16)), random.integers(0, 40, 500)
    queries = random.normal(size=(300, 16))
    probe = SimpleShot().fit(x, y)
    assert (probe.predict(queries) == NearestCentroid().fit(x, y).predict(queries)).all()
    np.testing.assert_allclose(probe.means_, NearestCentroid().fit(x, y).centroids_)


def test_a_tie_goes_to_the_first_class() -> None:
    x = np.array([[1.0], [1.0], [-1.0]])
    for labels in (["b", "b", "a"], ["a", "a", "b"]):
        assert SimpleShot().fit(x, labels).predict([[0.0]]).tolist() == ["a"]
    same = SimpleShot().fit(np.full((40, 3), 0.1, np.float32), np.arange(40))
    assert (same.predict(np.full((7, 3), 0.3, np.float32)) == 0).all()


def test_score_is_half_the_gap_of_squared_distances() -> None:
    probe = SimpleShot().fit([[0.0], [4.0], [10.0]], ["a", "b", "c"])
    assert probe.predict([[1.0], [2.0]]).tolist() == ["a", "a"]
    np.testing.assert_allclose(probe.predict_score([[1.0], [2.0]]), [(9 - 1) / 2, 0.0])
    np.testing.assert_allclose(
        probe.decision_function([[1.0]]), [[-1 / 2, -9 / 2, -81 / 2]], atol=1e-12
    )


def test_order_of_training_rows_does_not_matter() -> None:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(60, 4)), random.integers(0, 5, 60)
    order = random.permutation(60)
    queries = random.normal(size=(100, 4))
    ours, theirs = SimpleShot().fit(x, y), SimpleShot().fit(x[order], y[order])
    assert (ours.predict(queries) == theirs.predict(queries)).all()


def test_defect_simpleshot_returns_argmin_column_not_class() -> None:
    probe = SimpleShot().fit([[0.0], [5.0]], [1718287, 1355868])
    assert probe.predict([[0.1], [4.9]]).tolist() == [1718287, 1355868]


def test_defect_simpleshot_division_by_zero_norm() -> None:
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    with np.errstate(all="raise"):
        normalised = Normaliser(["l2"]).fit(x).transform(x)
        probe = SimpleShot().fit(normalised, ["zero", "a", "b"])
        assert probe.predict(normalised).tolist() == ["zero", "a", "b"]
        assert np.isfinite(probe.predict_score(normalised)).all()


@pytest.mark.parametrize("method", ["predict", "predict_score"])
def test_defect_simpleshot_b_c_d_temporary(method: str) -> None:
    """2,000 queries x 1,000 classes x 512 dimensions would be 4 GB."""
    random = np.random.default_rng(0)
    means = random.normal(size=(1000, 512)).astype(np.float32)
    probe = SimpleShot().fit(means, np.arange(1000))
    queries = means[random.integers(0, 1000, 2000)]
    tracemalloc.start()
    getattr(probe, method)(queries)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6

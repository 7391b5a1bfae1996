from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from fieldmark.errors import DataError
from fieldmark.probes import Normaliser
from fieldmark.probes.neighbours import Neighbours


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float:
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return 1.0 - float(a @ b / lengths) if lengths > 0 else 1.0


def brute_force(x: np.ndarray, y: np.ndarray, query: np.ndarray, k: int, metric: str) -> object:
    x, query = x.astype(np.float64), query.astype(np.float64)
    if metric == "euclidean":
        distances = [float(((query - row) ** 2).sum()) for row in x]
    else:
        distances = [cosine_distance(query, row) for row in x]
    order = sorted(range(len(x)), key=lambda i: (distances[i], y[i], i))[:k]
    votes = Counter(y[i] for i in order)
    most = max(votes.values())
    return next(y[i] for i in order if votes[y[i]] == most)


@given(
    st.integers(0, 10_000),
    st.integers(1, 7),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0, 300]),
)
def test_equals_brute_force(seed: int, k: int, dtype: type, offset: int) -> None:
    random = np.random.default_rng(seed)
    # Whole numbers make many exact ties in distance.
    x = (random.integers(-2, 3, size=(25, 3)) + offset).astype(dtype)
    y = random.integers(0, 4, 25) * 10
    queries = (random.integers(-2, 3, size=(15, 3)) + offset).astype(dtype)
    probe = Neighbours(k=k).fit(x, y)
    expected = [brute_force(x, y, each, k, "euclidean") for each in queries]
    assert probe.predict(queries).tolist() == expected
    left_out = [
        brute_force(np.delete(x, i, 0), np.delete(y, i), x[i], k, "euclidean") for i in range(25)
    ]
    assert probe.predict_leave_one_out()[0].tolist() == left_out


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_cosine_equals_brute_force(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(25, 4)), random.integers(0, 4, 25)
    x[::9] = 0
    queries = np.concatenate([random.normal(size=(15, 4)), np.zeros((1, 4))])
    probe = Neighbours(k=k, metric="cosine").fit(x, y)
    expected = [brute_force(x, y, each, k, "cosine") for each in queries]
    assert probe.predict(queries).tolist() == expected
    left_out = [
        brute_force(np.delete(x, i, 0), np.delete(y, i), x[i], k, "cosine") for i in range(25)
    ]
    assert probe.predict_leave_one_out()[0].tolist() == left_out


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("n_block_entries", [64, 1 << 22])
def test_equals_scikit_learn(
    metric: str, n_block_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fieldmark.probes.neighbours._BLOCK_ENTRIES", n_block_entries)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(400, 12)), random.integers(0, 30, 400)
    queries = random.normal(size=(200, 12))
    theirs = KNeighborsClassifier(n_neighbors=1, metric=metric, algorithm="brute").fit(x, y)
    probe = Neighbours(metric=metric).fit(x, y)
    assert (probe.predict(queries) == theirs.predict(queries)).all()
    distances = theirs.kneighbors(queries)[0][:, 0]
    np.testing.assert_allclose(-probe.predict_score(queries), distances, rtol=1e-7)


def test_a_tied_vote_goes_to_the_nearest() -> None:
    probe = Neighbours(k=4).fit([[1.0], [2.0], [3.0], [4.0]], ["b", "a", "a", "b"])
    assert probe.predict([[0.0]]).tolist() == ["b"]
    assert probe.predict([[2.4]]).tolist() == ["a"]
    assert probe.predict_score([[0.0]]).tolist() == [-1.0]


def test_k_above_the_number_of_images_means_all() -> None:
    probe = Neighbours(k=50).fit([[1.0], [2.0], [3.0]], ["b", "a", "a"])
    assert probe.predict([[0.0]]).tolist() == ["a"]
    assert probe.predict_leave_one_out()[0].tolist() == ["a", "a", "a"]


def test_order_of_training_rows_does_not_matter() -> None:
    random = np.random.default_rng(1)
    x = random.integers(0, 3, size=(60, 3)).astype(float)
    y, order = random.integers(0, 5, 60), random.permutation(60)
    queries = random.integers(0, 3, size=(100, 3)).astype(float)
    for k in (1, 2, 5):
        ours, theirs = Neighbours(k=k).fit(x, y), Neighbours(k=k).fit(x[order], y[order])
        assert (ours.predict(queries) == theirs.predict(queries)).all()


def test_float32_far_from_the_origin_is_exact() -> None:
    random = np.random.default_rng(2)
    x = (1000 + random.normal(size=(300, 64))).astype(np.float32)
    y = np.arange(300)
    double = x.astype(np.float64)
    distance = ((double[:, None] - double[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (Neighbours().fit(x, y).predict_leave_one_out()[0] == distance.argmin(axis=1)).all()


def test_constant_features_do_not_measure_all_pairs() -> None:
    x, y = np.full((3000, 256), 0.1, np.float32), np.arange(3000) % 7 + 1
    began = time.process_time()
    answers, _ = Neighbours(k=3).fit(x, y).predict_leave_one_out()
    assert (answers == 1).all()
    assert time.process_time() - began < 5


def test_leaving_one_out_of_one_is_refused() -> None:
    with pytest.raises(DataError, match="at least two are needed"):
        Neighbours().fit([[1.0]], ["a"]).predict_leave_one_out()


def test_defect_beluga_compares_row_index_with_label() -> None:
    x = np.array([[0.0], [0.1], [9.0], [9.1]])
    y = np.array([3, 3, 0, 0])
    answers, scores = Neighbours().fit(x, y).predict_leave_one_out()
    assert (answers == y).all()
    np.testing.assert_allclose(scores, -0.1)


def test_defect_beluga_euclidean_on_unnormalised_features() -> None:
    directions = np.array([[1.0, 0.0], [0.0, 1.0]])
    x = np.concatenate([directions * 1.0, directions * 100.0])
    y = np.array(["a", "b", "a", "b"])
    assert Neighbours().fit(x, y).predict_leave_one_out()[0].tolist() != y.tolist()
    assert Neighbours(metric="cosine").fit(x, y).predict_leave_one_out()[0].tolist() == y.tolist()
    unit = Normaliser(["l2"]).fit(x).transform(x)
    assert Neighbours().fit(unit, y).predict_leave_one_out()[0].tolist() == y.tolist()


def test_defect_leopard_query_not_excluded() -> None:
    """Copies of one image under different names: a query must not find itself, nor the farthest."""
    x = np.array([[1.0], [1.0], [1.0], [50.0]])
    answers, _ = Neighbours().fit(x, ["a", "b", "c", "far"]).predict_leave_one_out()
    assert answers.tolist() == ["b", "a", "a", "a"]


@pytest.mark.parametrize("n_each", [2, 5])
def test_ties_go_to_the_first_class_as_in_scikit_learn_where_asked(n_each: int) -> None:
    random = np.random.default_rng(8)
    x, y = random.normal(size=(8 * n_each, 6)), np.repeat(list("hgfedcba"), n_each)
    queries = random.normal(size=(200, 6))
    theirs = KNeighborsClassifier(5, algorithm="brute").fit(x, y).predict(queries)
    assert (Neighbours(k=5, ties="first").fit(x, y).predict(queries) == theirs).all()
    assert (Neighbours(k=5).fit(x, y).predict(queries) != theirs).mean() > 0.1

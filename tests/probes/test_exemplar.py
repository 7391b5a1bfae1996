from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from fieldmark.errors import DataError
from fieldmark.probes import exemplar
from fieldmark.probes.exemplar import Exemplar, retrieve


def herd(n: int, dim: int, offset: float, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Individuals with a few images each; `offset` is how long the common mean is."""
    random = np.random.default_rng(0)
    y = random.integers(0, n // 6, n)
    spread = np.arange(1, dim + 1) ** -0.25
    x = (random.normal(size=(n // 6, dim))[y] + random.normal(size=(n, dim))) * spread
    mean = random.normal(size=dim)
    return scale * (x + offset * mean / np.linalg.norm(mean)), y


def normalised(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def one_by_one(x: np.ndarray, queries: range) -> np.ndarray:
    """The recipe: decision values of one LinearSVC per query, the query itself left out."""
    rows = []
    for own in queries:
        is_own = np.arange(len(x)) == own
        machine = LinearSVC(class_weight="balanced", C=0.1, tol=1e-6, max_iter=10_000, dual=False)
        values = machine.fit(x, is_own).decision_function(x)
        rows.append(np.where(is_own, -np.inf, values))
    return np.stack(rows)


CASES = {
    "small": herd(60, 8, 2.0),
    "raw": herd(400, 48, 12.0),
    "raw, large": herd(400, 48, 12.0, scale=6.0),
    "no common mean": herd(400, 48, 0.0),
    "l2": (normalised(herd(500, 48, 4.0)[0]), herd(500, 48, 4.0)[1]),
    "float32": (herd(1_100, 32, 12.0)[0].astype(np.float32), herd(1_100, 32, 12.0)[1]),
    "float32, l2": (
        normalised(herd(1_100, 32, 3.0)[0]).astype(np.float32),
        herd(1_100, 32, 3.0)[1],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_one_machine_per_query(case: str) -> None:
    x, y = CASES[case]
    queries = range(25)
    theirs = one_by_one(x, queries)
    probe = Exemplar().fit(x, y)
    best, score = probe.retrieve_leave_one_out()
    assert (best[:25] == theirs.argmax(axis=1)).all()
    np.testing.assert_allclose(score[:25], theirs.max(axis=1), atol=2e-3)
    label, again = probe.predict_leave_one_out()
    assert (label == y[best]).all() and (again == score).all()
    assert probe.fit_notes_ == []


def massive(n: int, dim: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """ReLU features beside one coordinate ("massive activation") of ten thousand."""
    random = np.random.default_rng(0)
    y = random.integers(0, n // 6, n)
    x = np.maximum(random.normal(size=(n // 6, dim))[y] + 2.5 * random.normal(size=(n, dim)), 0)
    x[:, 5] = 1e4 * (1 + spread * random.normal(size=n))
    return x.astype(np.float32), y


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.05])
def test_defect_one_huge_coordinate(spread: float) -> None:
    """Float32 lost all other axes, and hundreds of steps were cut off without a word."""
    x, y = massive(1_100, 256, spread)
    theirs = one_by_one(x.astype(np.float64), range(8))
    probe = Exemplar().fit(x, y)
    best, score, is_open = retrieve(x, 0.1, x[:8], np.arange(8))
    assert (best == theirs.argmax(axis=1)).all() and not is_open.any()
    np.testing.assert_allclose(score, theirs.max(axis=1), atol=2e-3)
    probe.predict(x[:4])
    assert probe.fit_notes_ == []


def test_machines_that_stop_short_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = CASES["raw"]
    monkeypatch.setattr(exemplar, "_MOST_STEPS", dict.fromkeys(exemplar._MOST_STEPS, 2))
    probe = Exemplar().fit(x, y)
    probe.predict_leave_one_out()
    assert probe.fit_notes_ == [
        "400 of 400 SVMs stopped short of their minimum: scale the features "
        "(normalise: [l2] or [standardise])"
    ]


def test_queries_from_outside_meet_the_whole_gallery() -> None:
    x, y = CASES["raw"]
    gallery, queries = x[20:], x[:20]
    found = Exemplar().fit(gallery, y[20:]).predict(queries)
    for query, label in zip(queries, found, strict=True):
        rows = np.concatenate([query[None], gallery])
        assert y[20:][one_by_one(rows, range(1))[0, 1:].argmax()] == label


def test_defect_leopard_second_least_similar_image() -> None:
    """The best other image is taken, never the query itself and never from the wrong end."""
    x, y = CASES["raw"]
    best, _ = Exemplar().fit(x, y).retrieve_leave_one_out()
    assert (best != np.arange(len(x))).all()
    assert (y[best] == y).mean() > 0.5


def test_one_image_cannot_be_left_out() -> None:
    with pytest.raises(DataError, match="at least two are needed"):
        Exemplar().fit(np.ones((1, 3)), ["a"]).predict_leave_one_out()


def test_two_images_find_each_other() -> None:
    label, score = Exemplar().fit(np.eye(2), ["a", "b"]).predict_leave_one_out()
    assert label.tolist() == ["b", "a"] and np.isfinite(score).all()


def test_copies_find_each_other() -> None:
    x, y = CASES["raw"]
    doubled = np.concatenate([x, x])
    best, _ = Exemplar().fit(doubled, np.concatenate([y, y])).retrieve_leave_one_out()
    assert (best % len(x) == np.arange(len(doubled)) % len(x)).mean() > 0.99


def test_zero_rows_and_constant_columns_have_answers() -> None:
    x = np.zeros((150, 4))
    x[:, 0] = 1
    x[:5, 1] = np.arange(5)
    _, score = Exemplar().fit(x, np.arange(150)).predict_leave_one_out()
    assert np.isfinite(score).all()

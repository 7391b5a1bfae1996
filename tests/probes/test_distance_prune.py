"""The pruned search for neighbours against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmark.probes import _distance_cells, _distance_mutual, _distance_prune
from fieldmark.probes._distance import nearest


def brute_force(
    query: np.ndarray, rows: np.ndarray, k: int, metric: str, is_self: bool
) -> np.ndarray:
    query, rows = query.astype(np.float64), rows.astype(np.float64)
    if metric == "cosine":
        query, rows = (
            each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-300)
            for each in (query, rows)
        )
        distance = 1 - query @ rows.T
    else:
        distance = ((query[:, None] - rows[None]) ** 2).sum(axis=2)
    if is_self:
        np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1, kind="stable")[:, :k]


@pytest.fixture
def always_pruned(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    seen: list[type] = []

    def watch(search):  # type: ignore[no-untyped-def]
        pairs = search.pairs

        def count(self, *args):  # type: ignore[no-untyped-def]
            seen.append(search)
            return pairs(self, *args)

        monkeypatch.setattr(search, "pairs", count)

    watch(_distance_prune.Pruned)
    watch(_distance_mutual.Mutual)
    monkeypatch.setattr(_distance_prune, "_MANY_PRODUCTS", 0)
    monkeypatch.setattr(_distance_prune, "_LEAST_WIDTH", 8)
    monkeypatch.setattr(_distance_prune, "TELLING", 1.0)
    monkeypatch.setattr(_distance_mutual, "TELLING", 1.0)
    return seen


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decay", [0.0, 1.0, 4.0])
def test_equals_brute_force(
    metric: str, k: int, dtype: type, decay: float, always_pruned: list[type]
) -> None:
    random = np.random.default_rng(k)
    x = random.normal(size=(300, 24)) * np.arange(1, 25) ** -decay
    x[17] = 0
    x = (x + (20 if metric == "euclidean" else 0)).astype(dtype)
    rank = np.arange(300)
    index, _ = nearest(x, x, k, rank, metric, is_self=True)
    clear = np.arange(300) != 17
    assert (index[clear] == brute_force(x, x, k, metric, True)[clear]).all()
    queries = x[:50] + random.normal(size=(50, 24)).astype(dtype) / 5
    index, _ = nearest(queries, x, k, rank, metric)
    assert (index == brute_force(queries, x, k, metric, False)).all()
    assert set(always_pruned) == {_distance_prune.Pruned, _distance_mutual.Mutual}


def test_small_tiles_and_few_pairs_kept_at_a_time(
    always_pruned: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_distance_mutual, "_TILE_ROWS", 64)
    monkeypatch.setattr(_distance_mutual, "_TILE_COLUMNS", 100)
    monkeypatch.setattr(_distance_mutual, "_MOST_KEPT", 50)
    monkeypatch.setattr(_distance_cells, "_CELL_ROWS", 3)
    x = np.random.default_rng(0).normal(size=(500, 24)).astype(np.float32)
    for k in (1, 5, 40):
        index, _ = nearest(x, x, k, np.arange(500), is_self=True)
        assert (index == brute_force(x, x, k, "euclidean", True)).all()
    assert _distance_mutual.Mutual in always_pruned


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 5))
def test_ties_fall_as_without_pruning(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(-1, 2, size=(60, 16)).astype(np.float32)
    x[:, 3:] = 0
    rank = random.integers(0, 4, 60)
    plain = nearest(x, x, k, rank, is_self=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_distance_prune, "_MANY_PRODUCTS", 0)
        patch.setattr(_distance_prune, "_LEAST_WIDTH", 8)
        patch.setattr(_distance_prune, "TELLING", 1.0)
        patch.setattr(_distance_mutual, "TELLING", 1.0)
        pruned = nearest(x, x, k, rank, is_self=True)
    assert (plain[0] == pruned[0]).all()
    assert (plain[1] == pruned[1]).all()


def test_small_searches_are_not_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_distance_prune.Pruned, "__init__", None)
    x = np.random.default_rng(0).normal(size=(200, 256)).astype(np.float32)
    nearest(x, x, 1, np.arange(200), is_self=True)


def test_shapeless_features_are_searched_whole() -> None:
    """Where the first directions say nothing, looking at them first would cost twice."""
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 64)).astype(np.float32)
    norm = np.einsum("nd,nd->n", x, x)
    pruned = _distance_prune.Pruned(_distance_prune.Whole(x, norm / 2), norm)
    none = np.full(20, -1)
    far = random.normal(size=(20, 64)).astype(np.float32)
    assert not pruned.is_telling(far, none, 1, np.zeros(20))
    near = x[:20] + np.float32(1e-3)
    assert pruned.is_telling(near, none, 1, np.zeros(20))

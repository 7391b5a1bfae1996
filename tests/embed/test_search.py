"""Exact search against brute force: ties, blocks, files, copies of rows, weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.embed import CandidateCounts, PositiveRanks, rank_positives, top_k
from fieldmark.embed.search.nearest import BLOCK_BYTES
from fieldmark.errors import DataError


def made(seed: int, n: int, width: int, most: int = 2) -> np.ndarray:
    """Small whole numbers: products are exact, and many are equal."""
    return np.random.default_rng(seed).integers(-most, most + 1, (n, width)).astype(np.float32)


def brute_top_k(query: np.ndarray, gallery: np.ndarray, k: int) -> np.ndarray:
    score = query.astype(np.float64) @ gallery.astype(np.float64).T
    return np.argsort(-score, axis=1, kind="stable")[:, :k]


def brute_counts(
    score: np.ndarray, asks: np.ndarray, answers: np.ndarray, weight: np.ndarray
) -> CandidateCounts:
    """Counts of one direction, a pair at a time."""
    counts: list[list[int]] = []
    for ask, answer in zip(asks, answers, strict=True):
        row, own = score[ask], score[ask, answer]
        negative = ~np.isin(np.arange(len(row)), answers[asks == ask])
        counts.append(
            [
                weight[negative & (row > own)].sum(),
                weight[negative & (row == own)].sum(),
                weight[row > own].sum(),
                weight[row == own].sum() - 1,
            ]
        )
    best = score.argmax(axis=1) if score.shape[1] else np.full(len(score), -1)
    return CandidateCounts(*np.array(counts, np.int64).reshape(-1, 4).T, best)


def assert_same(ours: CandidateCounts, theirs: CandidateCounts) -> None:
    for name in ("better_p", "equal_p", "better_any_p", "equal_any_p", "best_n"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


def check_pairs(
    query: np.ndarray,
    gallery: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    weight_q: np.ndarray | None = None,
    weight_g: np.ndarray | None = None,
) -> PositiveRanks:
    ranks = rank_positives(query, gallery, pairs, weight_q=weight_q, weight_g=weight_g)
    score = query.astype(np.float64) @ gallery.astype(np.float64).T
    ones_q, ones_g = np.ones(len(query), int), np.ones(len(gallery), int)
    np.testing.assert_allclose(ranks.score_p, score[pairs])
    assert_same(
        ranks.to_gallery, brute_counts(score, *pairs, ones_g if weight_g is None else weight_g)
    )
    assert_same(
        ranks.to_query,
        brute_counts(score.T, *pairs[::-1], ones_q if weight_q is None else weight_q),
    )
    return ranks


def random_pairs(seed: int, n_q: int, n_g: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    query_p, row_p = np.nonzero(random.random((n_q, n_g)) < share)
    order = random.permutation(len(query_p))
    return query_p[order], row_p[order]


@given(
    seed=st.integers(0, 10**6),
    sizes=st.tuples(st.integers(0, 12), st.integers(0, 60), st.integers(1, 5)),
    k=st.integers(1, 70),
    block=st.sampled_from([1, 20_000, BLOCK_BYTES]),
)
def test_top_k_is_brute_force(seed: int, sizes: tuple[int, int, int], k: int, block: int) -> None:
    n_q, n_g, width = sizes
    query, gallery = made(seed, n_q, width), made(seed + 1, n_g, width)
    index, score = top_k(query, gallery, k, block_bytes=block)
    assert index.dtype == np.int64 and score.dtype == np.float32
    theirs = brute_top_k(query, gallery, k)
    np.testing.assert_array_equal(index, theirs)
    np.testing.assert_array_equal(score, np.take_along_axis(query @ gallery.T, theirs, axis=1))


@pytest.mark.parametrize("width", [3, 64, 512])
def test_top_k_of_copies_goes_by_index_whatever_the_blocks(width: int) -> None:
    random = np.random.default_rng(width)
    gallery = random.standard_normal((300, width), dtype=np.float32)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    gallery = gallery[random.integers(0, 300, 5000)]
    query = random.standard_normal((40, width), dtype=np.float32)
    theirs = np.stack(
        [np.lexsort((np.arange(5000), -score))[:25] for score in _slow_scores(query, gallery)]
    )
    for block in (1, 1 << 18, BLOCK_BYTES):
        np.testing.assert_array_equal(top_k(query, gallery, 25, block_bytes=block)[0], theirs)


def _slow_scores(query: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """Float64, each pair alone, so that copies are equal to the last bit."""
    rows = gallery.astype(np.float64)
    return np.stack([(rows * one).sum(axis=1) for one in query.astype(np.float64)])


def test_top_k_when_all_rows_are_equal() -> None:
    gallery = np.full((20_000, 16), 0.3, np.float32)
    index, _ = top_k(gallery[:3] * 1.7, gallery, 5)
    np.testing.assert_array_equal(index, np.tile(np.arange(5), (3, 1)))


def test_top_k_reads_files_in_turn(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    gallery = random.standard_normal((9000, 32)).astype(np.float16)
    query = random.standard_normal((7, 32), dtype=np.float32)
    bounds, maps = [0, 10, 10, 4111, 9000], []
    for number, (low, high) in enumerate(pairwise(bounds)):
        np.save(tmp_path / f"{number}.npy", gallery[low:high])
        mode: Any = "r" if high > low else None
        maps.append(np.load(tmp_path / f"{number}.npy", mmap_mode=mode))
    theirs = brute_top_k(query, gallery, 20)
    np.testing.assert_array_equal(top_k(query, gallery, 20)[0], theirs)
    np.testing.assert_array_equal(top_k(query, iter(maps), 20)[0], theirs)
    np.testing.assert_array_equal(top_k(query.astype(np.float16), gallery, 1)[0].shape, (7, 1))


@given(
    seed=st.integers(0, 10**6),
    sizes=st.tuples(st.integers(0, 25), st.integers(0, 25), st.integers(1, 4)),
    share=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    is_weighted=st.booleans(),
)
def test_ranks_are_brute_force(
    seed: int, sizes: tuple[int, int, int], share: float, is_weighted: bool
) -> None:
    n_q, n_g, width = sizes
    query, gallery = made(seed, n_q, width), made(seed + 1, n_g, width)
    random = np.random.default_rng(seed)
    weights = [random.integers(1, 4, n) if is_weighted else None for n in (n_q, n_g)]
    check_pairs(query, gallery, random_pairs(seed, n_q, n_g, share), *weights)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_ranks_over_many_blocks(dtype: Any) -> None:
    query, gallery = made(0, 1100, 6).astype(dtype), made(1, 3100, 6).astype(dtype)
    pairs = random_pairs(2, 1100, 3100, 0.0003)
    weights = (np.arange(1100) % 3 + 1, np.arange(3100) % 4 + 1)
    check_pairs(query, gallery, pairs, *weights)
    check_pairs(query, gallery, pairs)


def test_weights_stand_for_copies() -> None:
    query, gallery = made(3, 30, 3), made(4, 40, 3)
    weight = np.random.default_rng(5).integers(1, 4, 40)
    pairs = (np.arange(30), np.arange(30))
    once = rank_positives(query, gallery, pairs, weight_g=weight).to_gallery
    first = np.cumsum(weight) - weight
    copies = np.repeat(gallery, weight, axis=0)
    every = rank_positives(query, copies, (np.arange(30), first[:30])).to_gallery
    np.testing.assert_array_equal(once.better_any_p, every.better_any_p)
    np.testing.assert_array_equal(once.equal_any_p, every.equal_any_p)


@pytest.mark.parametrize("spread", [1.0, 1e-6, 0.0])
def test_order_of_rows_does_not_matter(spread: float) -> None:
    """Real numbers with copies, up to a model whose features have collapsed to one point."""
    random = np.random.default_rng(7)
    centre = random.standard_normal(64)
    gallery = (centre + spread * random.standard_normal((700, 64))).astype(np.float32)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    gallery = gallery[random.integers(0, 700, 1400)]
    query = gallery[:600] + np.float32(spread / 2)
    pairs = (np.arange(600), np.arange(600))
    ours = rank_positives(query, gallery, pairs)
    turn_q, turn_g = random.permutation(600), random.permutation(1400)
    back_q, back_g = np.argsort(turn_q), np.argsort(turn_g)
    other = rank_positives(query[turn_q], gallery[turn_g], (back_q[pairs[0]], back_g[pairs[1]]))
    for name in ("better_p", "equal_p", "better_any_p", "equal_any_p"):
        for side in ("to_gallery", "to_query"):
            theirs = getattr(getattr(other, side), name)
            np.testing.assert_array_equal(getattr(getattr(ours, side), name), theirs)
    score = _slow_scores(query, gallery)
    own = score[pairs][:, None]
    np.testing.assert_array_equal(ours.to_gallery.better_p, (score > own + 1e-12).sum(axis=1))
    close = np.abs(score - own) <= 1e-12
    np.testing.assert_array_equal(ours.to_gallery.equal_p, close.sum(axis=1) - 1)
    is_best = score >= score.max(axis=1, keepdims=True) - 1e-12
    np.testing.assert_array_equal(ours.to_gallery.best_n, is_best.argmax(axis=1))
    is_best = score >= score.max(axis=0) - 1e-12
    np.testing.assert_array_equal(ours.to_query.best_n, is_best.argmax(axis=0))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_named(value: float) -> None:
    gallery, query = made(0, 9000, 4), made(1, 3, 4)
    gallery[8500, 2] = value
    calls: list[Callable[[], object]] = [
        lambda: top_k(query, gallery, 2),
        lambda: rank_positives(query, gallery, (np.array([0]), np.array([0]))),
    ]
    for call in calls:
        with pytest.raises(DataError, match="gallery row 8500 contains NaN or infinity"):
            call()
    with pytest.raises(DataError, match="query row 8500"):
        top_k(gallery, query, 2)


def test_every_float16_is_read_as_it_is() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    _, score = top_k(np.ones((1, 1)), finite[:, None], len(finite))
    np.testing.assert_array_equal(score[0], np.sort(finite.astype(np.float32))[::-1])
    for value in every[~np.isfinite(every)]:
        with pytest.raises(DataError, match="row 1 contains"):
            top_k(np.ones((1, 1)), np.array([[1], [value]], np.float16), 1)


def test_features_of_two_models_do_not_meet() -> None:
    with pytest.raises(DataError, match="same model"):
        top_k(made(0, 3, 4), made(1, 3, 5), 1)
    with pytest.raises(DataError, match="same model"):
        rank_positives(made(0, 3, 4), made(1, 3, 5), (np.array([0]), np.array([0])))


def test_a_pair_is_listed_once() -> None:
    twice = np.array([1, 1])
    with pytest.raises(ValueError, match="twice"):
        rank_positives(made(0, 3, 4), made(1, 3, 4), (twice, twice))
    with pytest.raises(ValueError, match="k is 0"):
        top_k(made(0, 3, 4), made(1, 3, 4), 0)

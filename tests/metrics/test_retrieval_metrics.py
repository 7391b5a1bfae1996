"""Retrieval metrics against scikit-learn, and against the mean over all orders of tied rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from fieldmark.metrics._retrieval import (
    average_precision_at_k,
    average_precisions,
    first_positives,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank,
    reciprocal_rank_at_k,
)

Case = tuple[np.ndarray, np.ndarray]


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-9, rel=1e-9)


@st.composite
def results(draw: st.DrawFn, most: int = 40) -> Case:
    """Which rows are relevant, and scores with many ties."""
    n = draw(st.integers(1, most))
    relevant = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    score = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    return np.array(relevant), np.array(score, float)


def over_orders(case: Case, value: Callable[[np.ndarray], float]) -> float:
    """The mean of a function of the relevance by rank, over all orders of equal scores."""
    relevant, score = case
    values = [
        value(relevant[list(order)])
        for order in permutations(range(len(score)))
        if (np.diff(score[list(order)]) <= 0).all()
    ]
    return float(np.mean(values))


def plain_recall(k: int) -> Callable[[np.ndarray], float]:
    return lambda relevant: float(relevant[:k].any())


def plain_inverse(relevant: np.ndarray) -> float:
    return 1 / (relevant.argmax() + 1) if relevant.any() else 0.0


def pairs_of(case: Case) -> tuple[np.ndarray, ...]:
    """One query's positives as a search gives them: query, score, negatives better and equal."""
    relevant, score = case
    own, others = score[relevant], score[~relevant]
    better = (others > own[:, None]).sum(axis=1)
    equal = (others == own[:, None]).sum(axis=1)
    return np.zeros(len(own), int), own, better, equal


@given(case=results(most=6), k=st.integers(1, 8))
def test_recall_and_rank_are_means_over_all_orders(case: Case, k: int) -> None:
    first = first_positives(*pairs_of(case), 1)
    counts = (first.n_better, first.n_equal)
    recall = recall_at_k(*counts, k, first.n_tied)
    assert recall[0] == close(over_orders(case, plain_recall(k)))
    inverse = reciprocal_rank(*counts, first.n_tied)
    assert inverse[0] == close(over_orders(case, plain_inverse))
    assert reciprocal_rank_at_k(*case) == close(inverse[0])


@given(better=st.integers(0, 30), equal=st.integers(0, 30), k=st.integers(1, 40))
def test_one_positive_has_the_short_formula(better: int, equal: int, k: int) -> None:
    recall = np.clip((k - better) / (equal + 1), 0, 1)
    assert recall_at_k(better, equal, k) == close(recall)
    ranks = np.arange(better + 1, better + equal + 2)
    assert reciprocal_rank(better, equal) == close((1 / ranks).mean())


def test_many_queries_are_as_many_single_ones() -> None:
    random = np.random.default_rng(0)
    better, equal, tied = random.integers(0, 9, (3, 500))
    for k in (1, 5, 10):
        alone = [
            recall_at_k(*counts[:2], k, counts[2])
            for counts in zip(better, equal, tied, strict=True)
        ]
        np.testing.assert_allclose(recall_at_k(better, equal, k, tied), alone, atol=1e-12)
    alone = [reciprocal_rank(*counts) for counts in zip(better, equal, tied, strict=True)]
    np.testing.assert_allclose(reciprocal_rank(better, equal, tied), alone, atol=1e-12)


def test_huge_ties_stay_exact() -> None:
    """A model that gives one score to a hundred thousand rows."""
    n = 100_000
    assert recall_at_k(0, n - 1, 10) == close(10 / n)
    assert reciprocal_rank(0, n - 1) == close((1 / np.arange(1, n + 1)).mean())
    assert recall_at_k(0, n - 5, 1, 5) == close(5 / n)
    many = reciprocal_rank(np.zeros(n, int), np.full(n, n - 1))
    assert many.shape == (n,)


def theirs(case: Case) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(average_precision_score(*case))


@given(case=results())
def test_average_precision_is_scikit_learns(case: Case) -> None:
    assert average_precisions(*pairs_of(case), 1)[0] == close(theirs(case))


@given(cases=st.lists(results(most=8), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_queries_are_kept_apart_and_weights_stand_for_copies(cases: list[Case], seed: int) -> None:
    random = np.random.default_rng(seed)
    columns: list[list[np.ndarray]] = [[], [], [], [], []]
    expected, copies = [], []
    for number, (relevant, score) in enumerate(cases):
        _, own, better, equal = pairs_of((relevant, score))
        weight = random.integers(1, 4, len(own))
        query = np.full(len(own), number)
        for column, values in zip(columns, (query, own, better, equal, weight), strict=True):
            column.append(values)
        times = np.ones(len(score), int)
        times[relevant] = weight
        copies.append((np.repeat(relevant, times), np.repeat(score, times)))
        expected.append(theirs(copies[-1]))
    order = random.permutation(sum(map(len, columns[0])))
    *pairs, weight = (np.concatenate(column)[order] for column in columns)
    ours = average_precisions(*pairs, len(cases), weight)
    np.testing.assert_allclose(ours, expected, atol=1e-9)
    first = first_positives(*pairs, len(cases), weight)
    alone = [first_positives(*pairs_of(case), 1) for case in copies]
    for name in ("n_better", "n_equal", "n_tied"):
        single = np.concatenate([getattr(one, name) for one in alone])
        np.testing.assert_array_equal(getattr(first, name), single)


def test_without_queries_or_positives() -> None:
    none = np.zeros(0, int)
    assert average_precisions(none, none.astype(float), none, none, 3).tolist() == [0, 0, 0]
    first = first_positives(none, none.astype(float), none, none, 2)
    assert recall_at_k(first.n_better, first.n_equal, 5, first.n_tied).tolist() == [0, 0]
    assert reciprocal_rank(first.n_better, first.n_equal, first.n_tied).tolist() == [0, 0]
    assert recall_at_k(none, none, 5).shape == reciprocal_rank(none, none).shape == (0,)


@given(case=results(), n_missed=st.integers(0, 60))
def test_precision_at_k_is_inquires(case: Case, n_missed: int) -> None:
    relevant, k = case[0], len(case[0])
    n_positives = int(relevant.sum()) + n_missed
    value = theirs(case) * relevant.sum() / min(n_positives, k) if relevant.any() else 0.0
    assert average_precision_at_k(*case, n_positives) == close(value)


@given(case=results(), n_missed=st.integers(0, 60))
def test_ndcg_at_k_is_inquires(case: Case, n_missed: int) -> None:
    relevant, score = case
    n_positives = int(relevant.sum()) + n_missed
    truth = np.concatenate([relevant, np.ones(n_missed, bool)])
    guess = np.concatenate([score, np.full(n_missed, -100.0)])
    if len(truth) < 2:  # scikit-learn refuses a list of one
        assert ndcg_at_k(*case, n_positives) == float(relevant.any())
    else:
        value = ndcg_score([truth], [guess], k=len(relevant))
        assert ndcg_at_k(*case, n_positives) == close(value)


@given(case=results(), seed=st.integers(0, 99))
def test_order_of_results_does_not_matter(case: Case, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(case[0]))
    turned = (case[0][order], case[1][order])
    n_positives = int(case[0].sum()) + 3
    for function in (average_precision_at_k, ndcg_at_k):
        assert function(*turned, n_positives) == close(function(*case, n_positives))
    assert reciprocal_rank_at_k(*turned) == close(reciprocal_rank_at_k(*case))


def test_no_results_and_nothing_relevant() -> None:
    for relevant, score in (([], []), ([False], [0.3])):
        for n_positives in (0, 7):
            assert average_precision_at_k(relevant, score, n_positives) == 0
            assert ndcg_at_k(relevant, score, n_positives) == 0
        assert reciprocal_rank_at_k(relevant, score) == 0
    with pytest.raises(ValueError, match="2 results are relevant of 1"):
        ndcg_at_k([True, True], [0.2, 0.1], 1)

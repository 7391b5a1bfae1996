from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from fieldmark.metrics import Metric, known_metrics, load_metric

Labels = tuple[np.ndarray, np.ndarray, np.ndarray]


def brute_force(name: str, target: list[int], prediction: list[int]) -> float:
    pairs = list(zip(target, prediction, strict=True))
    if name in ("accuracy", "exact_match"):
        return sum(t == p for t, p in pairs) / len(pairs)
    values = []
    for each in sorted(set(target)):
        hits = sum(t == p == each for t, p in pairs)
        wrongly = sum(p == each != t for t, p in pairs)
        missed = sum(t == each != p for t, p in pairs)
        recall, f1 = hits / (hits + missed), 2 * hits / (2 * hits + wrongly + missed)
        values.append(recall if name == "macro_accuracy" else f1)
    return sum(values) / len(values)


@st.composite
def labels(draw: st.DrawFn) -> Labels:
    n = draw(st.integers(1, 30))
    numbers = st.sampled_from([0, 1, 2, 7, 10**12])
    target = draw(st.lists(numbers, min_size=n, max_size=n))
    prediction = draw(st.lists(numbers | st.just(-1) | st.just(5), min_size=n, max_size=n))
    weight = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    return np.array(target), np.array(prediction), np.array(weight)


OF_LABELS = [each for each in known_metrics() if load_metric(each).uses in ("prediction", "whole")]
ALL = pytest.mark.parametrize("name", OF_LABELS)


@ALL
@given(data=labels())
def test_equals_brute_force(name: str, data: Labels) -> None:
    target, prediction, _ = data
    value = load_metric(name)(target, prediction)
    assert value == pytest.approx(brute_force(name, target.tolist(), prediction.tolist()))
    assert isinstance(value, float)


@ALL
@given(data=labels())
def test_weights_are_repetitions(name: str, data: Labels) -> None:
    target, prediction, weight = data
    metric = load_metric(name)
    repeated = metric(np.repeat(target, weight), np.repeat(prediction, weight))
    assert metric(target, prediction, weight) == pytest.approx(repeated, nan_ok=True)


@ALL
@given(data=labels(), seed=st.integers(0, 99))
def test_order_of_items_does_not_matter(name: str, data: Labels, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(data[0]))
    metric = load_metric(name)
    assert metric(*(each[order] for each in data)) == pytest.approx(metric(*data), nan_ok=True)


@ALL
@given(data=labels())
def test_scaled_weights_and_bounds(name: str, data: Labels) -> None:
    metric = load_metric(name)
    value = metric(*data)
    assert metric(data[0], data[1], data[2] * 0.37) == pytest.approx(value, nan_ok=True)
    assert math.isnan(value) == (data[2].sum() == 0)
    assert math.isnan(value) or metric.bounds[0] <= value <= metric.bounds[1]


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("accuracy", accuracy_score),
        ("macro_accuracy", lambda t, p: recall_score(t, p, labels=np.unique(t), average="macro")),
        ("macro_f1", lambda t, p: f1_score(t, p, labels=np.unique(t), average="macro")),
    ],
)
def test_equals_scikit_learn(name: str, theirs: Callable[..., float]) -> None:
    random = np.random.default_rng(0)
    target = random.zipf(1.5, 2000) % 50
    prediction = np.where(random.random(2000) < 0.6, target, random.integers(0, 60, 2000))
    assert load_metric(name)(target, prediction) == pytest.approx(theirs(target, prediction))


def test_no_answer_is_never_right_and_blames_no_class() -> None:
    target, prediction = np.array([0, 0, 1, 1]), np.array([0, -1, 1, -1])
    assert load_metric("accuracy")(target, prediction) == 0.5
    assert load_metric("macro_accuracy")(target, prediction) == 0.5
    assert load_metric("macro_f1")(target, prediction) == pytest.approx(2 / 3)


@ALL
def test_nothing_to_score_is_not_a_number(name: str) -> None:
    metric = load_metric(name)
    assert math.isnan(metric(np.array([], int), np.array([], int)))
    assert math.isnan(metric(np.array([1]), np.array([1]), np.array([0])))


@ALL
def test_mistakes_are_told(name: str) -> None:
    metric = load_metric(name)
    with pytest.raises(ValueError, match="expected one value per item"):
        metric(np.array([1, 2]), np.array([1]))
    with pytest.raises(ValueError, match="-1 means no answer"):
        metric(np.array([-1]), np.array([-1]))
    with pytest.raises(ValueError, match="whole numbers"):
        metric(np.array(["owl"]), np.array(["owl"]))


def test_defect_macro_f1_scores_absent_classes_zero() -> None:
    """Ids 0..max with gaps, and classes that a resample lost, are left out of the mean."""
    target = np.array([3, 3, 900])
    metric: Metric = load_metric("macro_f1")
    assert metric(target, target) == 1.0
    assert metric(target, target, np.array([2, 1, 0])) == 1.0


def test_defect_fishnet_averages_only_the_first_columns() -> None:
    """Every label present counts, however they are numbered."""
    target, prediction = np.arange(9), np.array([0, 1, 0, 0, 0, 0, 0, 0, 0])
    assert load_metric("macro_accuracy")(target, prediction) == pytest.approx(2 / 9)

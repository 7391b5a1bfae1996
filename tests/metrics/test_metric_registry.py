from __future__ import annotations

import pickle
from functools import partial, update_wrapper
from pathlib import Path

import numpy as np
import pytest

from fieldmark import metrics
from fieldmark.errors import UnknownName, UsageError
from fieldmark.metrics import _registry, known_metrics, load_metric, metric, register_metric

MINE = """
from fieldmark.metrics import metric

@metric("error rate", direction="down", kind="mean", bounds=(0, 1))
def error_rate(target, prediction, weight=None):
    return float((target != prediction).mean())

def bare(target, prediction, weight=None):
    return 3.0

def without_weight(target, prediction):
    return 3.0

def by_hand(target, prediction, weight=None):
    return 3.0

by_hand.direction = "down"

@metric("fear", uses="kinds")
def fear(target, prediction, weight=None, *, kind):
    return float((kind[prediction] == "poisonous").mean())

number = 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize("name", known_metrics())
def test_every_metric_says_what_it_is(name: str) -> None:
    each = load_metric(name)
    assert each.title and each.__doc__
    assert each.direction in ("up", "down")
    assert each.kind in ("mean", "other")
    assert each.bounds[0] < each.bounds[1]
    assert each.uses in ("prediction", "score", "whole", "kinds", "value")
    assert pickle.loads(pickle.dumps(each)) is each


@pytest.mark.parametrize("name", known_metrics())
def test_a_mean_is_a_mean(name: str) -> None:
    each = load_metric(name)
    if each.uses == "kinds":
        each = update_wrapper(partial(each, kind=np.array(["", "poisonous", "unknown"])), each)
    random = np.random.default_rng(0)
    target, prediction = random.integers(0, 3, 50), random.integers(0, 3, 50)
    weight = random.integers(0, 3, 50)
    values = [each(target[i : i + 1], prediction[i : i + 1]) for i in range(50)]
    is_mean = each(target, prediction, weight) == pytest.approx(np.average(values, weights=weight))
    assert is_mean == (each.kind == "mean")


def test_the_names() -> None:
    assert {"accuracy", "macro_accuracy", "macro_f1"} <= set(known_metrics())
    assert known_metrics() == sorted(known_metrics())
    assert metrics.__all__ == sorted(metrics.__all__)


def test_a_users_file_is_a_metric(folder: Path) -> None:
    mine = load_metric("mine.py:error_rate", base=folder)
    assert mine(np.array([1, 2]), np.array([1, 1])) == 0.5
    assert (mine.direction, mine.kind, mine.title) == ("down", "mean", "error rate")
    bare = load_metric("mine.py:bare", base=folder)
    assert (bare.direction, bare.kind, bare.title) == ("up", "other", "bare")
    by_hand = load_metric("mine.py:by_hand", base=folder)
    assert (by_hand.direction, by_hand.kind, by_hand.uses) == ("down", "other", "prediction")
    assert load_metric("mine.py:fear", base=folder).uses == "kinds"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("macro-acuracy", "metric 'macro-acuracy' is not known. Did you mean 'macro_accuracy'"),
        ("mine.py:eror_rate", "has no 'eror_rate'. Did you mean 'error_rate'?"),
        ("mine.py:number", "metric 'mine.py:number' is not a function f(target, prediction, "),
        ("mine.py:without_weight", "is not a function f(target, prediction, weight=None)"),
    ],
)
def test_mistakes_get_one_line(folder: Path, name: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_metric(name, base=folder)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_registering() -> None:
    @metric("always one")
    def one(target: np.ndarray, prediction: np.ndarray, weight: np.ndarray | None = None) -> float:
        return 1.0

    try:
        register_metric("one", one)
        assert load_metric("one") is one
        assert "one" in known_metrics()
        for taken in ("one", "accuracy"):
            with pytest.raises(UsageError, match="already exists"):
                register_metric(taken, one)
    finally:
        _registry._ADDED.added.pop("one", None)
    with pytest.raises(UnknownName):
        load_metric("one")

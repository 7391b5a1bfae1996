"""The mark of "not distinguishable from the best", from stored predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fieldmark.report import read_table
from fieldmark.stats import Ties
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store

SPEC = RunSpec("a", "beluga", "probe/svm", {"score": "mean"})


def right(n: int, n_right: int, shift: int = 0) -> np.ndarray:
    return np.roll(np.arange(n) < n_right, shift)


@pytest.fixture
def empty(tmp_path):
    with Store.open(tmp_path / "ties.db") as opened:
        yield opened


def tied(store: Store, **more) -> dict[str, bool | None]:
    return {row.model: row.is_tied for row in read_table(store, **more).rows}


def test_the_comparison_is_paired(empty, filled):
    """Ten items more of the same are a clear lead; ten more of quite other ones are not."""
    filled(empty, SPEC, {"": right(200, 120)})
    filled(empty, replace(SPEC, model="same items"), {"": right(200, 110)})
    filled(empty, replace(SPEC, model="other items"), {"": right(200, 110, 90)})
    assert tied(empty) == {"a": True, "same items": False, "other items": True}


def test_a_model_alone_is_not_compared(empty, filled):
    filled(empty, SPEC, {"": right(200, 120)})
    assert tied(empty) == {"a": None}


def test_without_a_judge_nothing_is_compared(empty, filled):
    filled(empty, SPEC, {"": right(200, 120)})
    filled(empty, replace(SPEC, model="b"), {"": right(200, 120)})
    assert tied(empty, judge=None) == {"a": None, "b": None}


def seen_by_judge(store: Store, **more) -> dict[str, object]:
    seen: dict[str, object] = {}

    def judge(items, predictions, metric) -> Ties:
        seen.update(items=items, predictions=predictions, metric=metric)
        return Ties(next(iter(predictions)), tuple(predictions), {})

    seen["tied"] = tied(store, judge=judge, **more)
    return seen


def test_only_items_that_all_answered_are_compared(empty, filled):
    filled(empty, SPEC, {"": right(100, 60)}, n_lost=10)
    filled(empty, replace(SPEC, model="b"), {"": right(100, 50)})
    seen = seen_by_judge(empty)
    assert len(seen["items"].target) == 90
    for name, hits in zip(seen["predictions"], (50, 40), strict=True):
        assert (seen["predictions"][name] == seen["items"].target).sum() == hits
    assert seen["tied"] == {"a": True, "b": True}


def test_the_rule_for_parts_is_that_of_the_score(empty, filled):
    parts = {"p": right(20, 10), "q": right(10, 5)}
    for rule, model in ((rule, m) for rule in ("mean", "pooled", "q") for m in ("a", "b")):
        filled(empty, replace(SPEC, task=rule, model=model, settings={"score": rule}), parts)
    mean, pooled, part = (
        seen_by_judge(empty, where=RunFilter(tasks=(rule,)))["items"]
        for rule in ("mean", "pooled", "q")
    )
    assert mean.score == "mean" and sorted(set(mean.part)) == ["p", "q"]
    assert pooled.score == "pooled" and len(pooled.target) == 30
    assert part.score == "pooled" and len(part.target) == 10


def test_units_are_kept_together(empty):
    for model in ("a", "b"):
        run = empty.begin_run(replace(SPEC, model=model))
        given = Predictions(["1", "2", "3"], ["x"] * 3, ["x", "y", "x"], units=["u", "u", None])
        empty.write_part(run, PartResult(given))
        empty.finish_run(run, [Score("accuracy", 2 / 3, n=3, is_primary=True)])
    assert list(seen_by_judge(empty)["items"].unit) == ["u", "u", "3"]


def test_a_metric_that_is_not_here_leaves_the_models_uncompared(empty, filled):
    for model in ("a", "b"):
        run = filled(empty, replace(SPEC, model=model), {"": right(20, 10)})
        empty.rescore_run(run, [Score("gone.py:metric", 0.5, n=20, is_primary=True)])
    assert tied(empty) == {"a": None, "b": None}

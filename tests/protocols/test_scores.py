"""A run's scores, against arithmetic by hand."""

from __future__ import annotations

import polars as pl
import pytest

from fieldmark.protocols import PartItems
from fieldmark.protocols._score import POOLED
from fieldmark.store import Score
from fieldmark.tasks import task_schema
from kit.scoring import score_run

BASE = {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy"}


def frame(rows: list[tuple[str, str, str, str]], repeat: int = 0) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "part": part,
                "repeat": repeat,
                "id": each,
                "target": target,
                "prediction": prediction,
                "score": 0.0,
                "unit": None,
                "outcome": "ok",
            }
            for part, each, target, prediction in rows
        ],
        schema_overrides={"unit": pl.String},
    )


def part(name: str, **groups: str) -> PartItems:
    return PartItems(name, pl.DataFrame(), pl.DataFrame(), tuple(groups.items()))


def by_name(scores: list[Score]) -> dict[tuple[str, str], Score]:
    return {(score.part, score.metric): score for score in scores}


# Part "a": 3 of 4 right; part "b": 0 of 1; both use the label names x and y.
ROWS = [
    ("a", "1", "x", "x"),
    ("a", "2", "x", "x"),
    ("a", "3", "y", "y"),
    ("a", "4", "y", "x"),
    ("b", "5", "x", "y"),
]


def test_defect_newt_pooled_instead_of_mean_over_tasks() -> None:
    """Defect: pooled accuracy was reported where the benchmark means the mean over tasks."""
    task = task_schema().model_validate(BASE | {"parts": "task", "groups": ["cluster"]})
    parts = [part("a", cluster="c1"), part("b", cluster="c2")]
    scores = by_name(score_run(task, parts, frame(ROWS)))
    assert scores["", "accuracy"].value == pytest.approx((3 / 4 + 0) / 2)
    assert scores["", "accuracy"].is_primary
    assert scores[POOLED, "accuracy"].value == pytest.approx(3 / 5)
    assert scores["cluster: c1", "accuracy"].value == scores["a", "accuracy"].value == 3 / 4
    assert scores["b", "accuracy"].n == 1
    for score in scores.values():
        if score.low is None:
            assert score.n == 1 and "independent units" in score.warning
        else:
            assert score.low <= score.value <= score.high


def test_pooled_can_be_the_score() -> None:
    task = task_schema().model_validate(BASE | {"parts": "task", "score": "pooled"})
    scores = by_name(score_run(task, [part("a"), part("b")], frame(ROWS)))
    assert scores["", "accuracy"].value == pytest.approx(3 / 5)
    assert scores["mean over parts", "accuracy"].value == pytest.approx(3 / 8)


def test_defect_ages_primary_follows_the_order_of_running() -> None:
    """Defect: the primary score was simply whichever setting ran last."""
    keys = {"parts": {"b": {}, "a": {}}, "primary": "a"}
    task = task_schema().model_validate(BASE | keys)
    for parts in ([part("a"), part("b")], [part("b"), part("a")]):
        scores = by_name(score_run(task, parts, frame(ROWS)))
        assert scores["", "accuracy"].value == 3 / 4
        assert [score.part for score in scores.values() if score.is_primary] == [""]


def test_labels_of_one_part_are_not_those_of_another() -> None:
    task = task_schema().model_validate(
        BASE | {"parts": "task", "score": "pooled", "also": "macro_accuracy"}
    )
    scores = by_name(score_run(task, [part("a"), part("b")], frame(ROWS)))
    # Classes: a/x 2 of 2, a/y 1 of 2, b/x 0 of 1.
    assert scores["", "macro_accuracy"].value == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_repeats_are_averaged_and_do_not_narrow_the_interval() -> None:
    task = task_schema().model_validate(BASE)
    rows = [("", f"{k}", "x", "x" if k % 3 else "y") for k in range(60)]
    once = by_name(score_run(task, [part("")], frame(rows)))["", "accuracy"]
    twice = pl.concat([frame(rows), frame(rows, repeat=1)])
    both = by_name(score_run(task, [part("")], twice))["", "accuracy"]
    assert both.value == pytest.approx(once.value)
    assert both.n == once.n == 60
    assert both.high - both.low == pytest.approx(once.high - once.low, rel=0.15)


def test_what_was_not_answered_is_wrong() -> None:
    task = task_schema().model_validate(BASE)
    rows = frame([("", "1", "x", "x"), ("", "2", "x", None)]).with_columns(
        outcome=pl.when(pl.col("id") == "2").then(pl.lit("refused")).otherwise(pl.col("outcome"))
    )
    scores = by_name(score_run(task, [part("")], rows))
    score, among = scores["", "accuracy"], scores["", "among_answered"]
    assert (score.value, score.n, score.is_primary) == (0.5, 2, True)
    assert (among.value, among.n, among.is_primary) == (1.0, 1, False)

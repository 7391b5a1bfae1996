"""The mark of "not distinguishable from the best", from stored predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fieldmark.metrics import load_metric
from fieldmark.report import read_table
from fieldmark.report.compare.paired import Paired, read_paired
from fieldmark.stats import estimate
from fieldmark.store import PartResult, Predictions, Run, RunFilter, RunSpec, Score, Store

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


def test_unasked_for_nothing_is_compared(empty, filled):
    filled(empty, SPEC, {"": right(200, 120)})
    filled(empty, replace(SPEC, model="b"), {"": right(200, 120)})
    assert tied(empty, compare=False) == {"a": None, "b": None}


def test_equal_models_share_a_tier_and_a_better_one_leads(empty, filled):
    filled(empty, SPEC, {"": right(400, 330)})
    for number in range(3):
        model = f"equal {number}"
        filled(empty, replace(SPEC, model=model), {"": right(400, 250, 7 * number)})
    rows = {row.model: row.tier for row in read_table(empty).rows}
    assert rows == {"a": "A", "equal 0": "B", "equal 1": "B", "equal 2": "B"}


def paired(store: Store, **where) -> Paired:
    return read_paired(store, cells_of(store, **where), load_metric("accuracy"))


def cells_of(store: Store, **where) -> list[list[Run]]:
    return [[run] for run in store.runs(RunFilter(**where))]


def test_only_items_that_all_were_asked_are_compared(empty, filled):
    filled(empty, SPEC, {"": right(90, 60)})
    filled(empty, replace(SPEC, model="b"), {"": right(100, 50)})
    found = paired(empty)
    assert (len(found.items.target), found.n_left_out) == (90, 10)


def test_no_answer_counts_as_wrong(empty, filled):
    filled(empty, SPEC, {"": right(100, 60)}, n_lost=10)
    filled(empty, replace(SPEC, model="b"), {"": right(100, 50)})
    found = paired(empty)
    assert (len(found.items.target), found.n_left_out) == (100, 0)
    assert (found.answer_mn == found.items.target).sum(axis=1).tolist() == [50, 50]
    assert (found.answer_mn[0, :10] == -1).all()


def test_the_rule_for_parts_is_that_of_the_score(empty, filled):
    parts = {"p": right(20, 10), "q": right(10, 5)}
    for rule, model in ((rule, m) for rule in ("mean", "pooled", "q") for m in ("a", "b")):
        filled(empty, replace(SPEC, task=rule, model=model, settings={"score": rule}), parts)
    mean, pooled, part = (paired(empty, tasks=(rule,)).items for rule in ("mean", "pooled", "q"))
    assert mean.score == "mean" and len(set(mean.part)) == 2
    assert pooled.score == "pooled" and len(pooled.target) == 30
    assert len(set(pooled.target)) == 2, "a fox of one part is not a fox of another"
    assert part.score == "pooled" and len(part.target) == 10


def test_units_are_kept_together(empty):
    for model in ("a", "b"):
        run = empty.begin_run(replace(SPEC, model=model))
        given = Predictions(["1", "2", "3"], ["x"] * 3, ["x", "y", "x"], units=["u", "u", None])
        empty.write_part(run, PartResult(given))
        empty.finish_run(run, [Score("accuracy", 2 / 3, n=3, is_primary=True)])
    first, second, third = paired(empty).items.unit
    assert first == second != third


def test_metrics_of_scores_and_of_whole_items_are_compared_as_they_are_scored(empty):
    """The same yes and no, but one model is surer of the right ones."""
    yes = ["true"] * 5 + ["false"] * 5
    for model, sure in (("good", [0.9] * 5 + [0.1] * 5), ("poor", [0.1] * 5 + [0.9] * 5)):
        spec = replace(SPEC, model=model, settings={"score": "mean", "parts": ["fin", "barbel"]})
        run = empty.begin_run(spec)
        for part in ("fin", "barbel"):
            ids = [f"{number}" for number in range(10)]
            given = Predictions(ids, yes, ["true"] * 10, sure)
            empty.write_part(run, PartResult(given, part=part))
        empty.finish_run(run, [Score("average_precision", 0.5, n=10, is_primary=True)])
    found = read_paired(empty, cells_of(empty), load_metric("average_precision"))
    good, poor = (estimate(found.items, each, found.metric) for each in found.answer_mn)
    assert good == 1.0 > poor
    whole = read_paired(empty, cells_of(empty), load_metric("exact_match"))
    assert len(whole.items.target) == 10
    assert [estimate(whole.items, each, whole.metric) for each in whole.answer_mn] == [0.5, 0.5]


def test_a_metric_that_is_not_here_leaves_the_models_uncompared(empty, filled):
    for model in ("a", "b"):
        run = filled(empty, replace(SPEC, model=model), {"": right(20, 10)})
        empty.rescore_run(run, [Score("gone.py:metric", 0.5, n=20, is_primary=True)])
    assert tied(empty) == {"a": None, "b": None}

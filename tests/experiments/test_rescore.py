"""Are stored answers scored again as the run scored them, without data or model?"""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UnknownName
from fieldmark.experiments import rescore
from fieldmark.progress import Silent
from fieldmark.protocols import Scoring, score_answers
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store

EVERYTHING = RunFilter()
PARTS = {"p": {"cluster": "age"}, "q": {"cluster": "age"}, "r": {"cluster": "health"}}


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "results.db") as opened:
        settings = {"parts": list(PARTS), "score": "mean"}
        run = opened.begin_run(RunSpec("m/a", "t", "probe/x", settings))
        for number, (name, groups) in enumerate(PARTS.items()):
            ids = [f"{index:02d}" for index in range(20)]
            truth = ["fox" if index % 3 else "hare" for index in range(20)]
            answers = ["fox" if index % (number + 2) else "hare" for index in range(20)]
            given = Predictions(ids, truth, answers)
            opened.write_part(run, PartResult(given, part=name, info={"groups": groups}))
        scoring = Scoring(("accuracy",), "mean", PARTS)
        opened.finish_run(run, score_answers(scoring, opened.predictions(run)))
        yield opened


def test_the_same_metrics_give_the_same_scores(store):
    before = store.scores()
    (found,) = rescore(store, EVERYTHING, (), Silent())
    assert found.changed == [] and found.kept == []
    assert store.scores() == before
    names = {score.part for score in store.scores()[1]}
    assert {"", "p", "q", "r", "cluster: age", "cluster: health"} <= names


def test_a_new_metric_stands_beside_the_tasks_own(store):
    (found,) = rescore(store, EVERYTHING, ["macro_accuracy"], Silent())
    assert found.changed == ["macro_accuracy"]
    wholes = [score for score in store.scores()[1] if not score.part]
    assert {score.metric: score.is_primary for score in wholes} == {
        "accuracy": True,
        "macro_accuracy": False,
    }


def test_a_metric_of_the_users_own(store, tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "def always_one(target, prediction, weight=None):\n    return 1.0\n"
    )
    rescore(store, EVERYTHING, [f"{tmp_path}/mine.py:always_one"], Silent())
    mine = [score for score in store.scores()[1] if score.metric == "always_one"]
    assert {score.value for score in mine} == {1.0}


def test_scores_of_a_metric_that_is_gone_stay(store):
    gone = Score("gone", 0.25, is_primary=True)
    store.rescore_run(1, [gone])
    (found,) = rescore(store, EVERYTHING, ["accuracy"], Silent())
    assert found.kept == ["gone"]
    scores = {s.metric: (s.value, s.is_primary) for s in store.scores()[1] if not s.part}
    assert scores["gone"] == (0.25, True)
    assert not scores["accuracy"][1]


def test_a_mistyped_metric_changes_nothing(store):
    before = store.scores()
    with pytest.raises(UnknownName, match="acuracy"):
        rescore(store, EVERYTHING, ["acuracy"], Silent())
    assert store.scores() == before

"""Does a model that training wrote get into the store, and does a failure stay one line?"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fieldmark.build.train.suite import (
    SuiteRun,
    evaluate_in_background,
    model_name,
    read_scores,
    setting_flags,
)
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.duals import save_open_clip
from kit.made import make_dataset

pytest.importorskip("open_clip")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    make_dataset("world_train", folder / "data" / "world_train", 60)
    save_open_clip(folder / "model")
    return folder


def start(place: Path, tasks: Sequence[str], step: int = 7) -> SuiteRun:
    settings = Settings(
        results=place / "results", cache=place / "cache", data_root=place / "data", device="cpu"
    )
    flags = setting_flags(settings)
    return evaluate_in_background(place / "model", tasks, settings.store, step, flags)


@pytest.mark.slow
def test_scores_are_in_the_store_with_intervals(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "8")
    tasks = ["world-unseen@known", "world-looks"]
    evaluation = start(place, tasks)
    named = evaluation.result()
    assert evaluation.is_done and not evaluation.problem, evaluation.log.read_text()
    assert list(named) == ["world-looks@recall_at_5", "world-unseen@known@accuracy"]
    assert {score.metric for score in evaluation.scores} >= {"recall_at_1", "macro_accuracy"}
    for score in evaluation.scores:
        if score.is_primary and score.low is not None and score.high is not None:
            assert score.low <= score.value <= score.high
    with Store.open(place / "results" / "fieldmark.db", read_only=True) as store:
        names = {run.spec.model for run in store.runs()}
    assert names == {f"open-clip/local-dir:{(place / 'model').resolve()}"}
    assert read_scores("open-clip/other", place / "results" / "fieldmark.db") == ()


def test_a_failure_is_one_line(place: Path) -> None:
    evaluation = start(place, ["world-unsen"])
    assert evaluation.result() == {} and evaluation.scores == ()
    assert "\n" not in evaluation.problem
    assert evaluation.problem.startswith("the evaluation of step 7 ended with 2 (")
    assert "Did you mean 'world-unseen'" in evaluation.problem
    assert str(evaluation.log) in evaluation.problem and evaluation.log.is_file()


def test_a_model_has_one_name_whoever_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative below the working directory, whatever way it was given."""
    monkeypatch.chdir(tmp_path)
    for folder in (Path("runs/a/model"), tmp_path / "runs/a/model"):
        assert model_name(folder) == "open-clip/local-dir:runs/a/model"
    (tmp_path / "runs/a/model-two").mkdir(parents=True)
    assert model_name(Path("runs/a/model")) == "open-clip/local-dir:runs/a/model-two"
    monkeypatch.chdir(tmp_path / "runs/a/model-two")
    name = f"open-clip/local-dir:{tmp_path / 'runs/b/model'}"
    assert model_name(tmp_path / "runs/b/model") == name


def test_it_can_be_stopped(place: Path) -> None:
    evaluation = start(place, ["world-looks"])
    assert not evaluation.is_done
    evaluation.stop()
    assert evaluation.result() == {} and "ended with" in evaluation.problem


def deaf() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(f"{os.getsid(0)}\n")
    time.sleep(60)
    return 0


@pytest.mark.slow
def test_one_that_does_not_listen_is_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of its own: a signal for all processes of a job does not reach it."""
    monkeypatch.setattr("fieldmark.build.train.suite._PATIENCE_S", 0.2)
    log = tmp_path / "model.log"
    evaluation = SuiteRun(deaf, [], "the evaluation", ("m", tmp_path / "x.db"), log)
    while not log.read_text().strip():
        time.sleep(0.02)
    assert int(log.read_text()) != os.getsid(0)
    evaluation.stop()
    assert evaluation.is_done

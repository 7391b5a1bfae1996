"""A bit that flips in stored predictions or scores is found by `doctor` and when merging."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fieldmark.cli import main as command
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store, merge_shards

FLIPS = {
    "a prediction": (
        "UPDATE answer SET prediction = zeroblob(length(prediction))",
        "predictions of part 'p', repeat 0",
    ),
    "how sure": ("UPDATE answer SET score = zeroblob(length(score))", "predictions of part 'p'"),
    "an outcome": ("UPDATE answer SET outcome = prediction", "predictions of part 'p'"),
    "a target": ("UPDATE item_list SET target = item", "what was asked"),
    "a score": ("UPDATE score SET value = value + 1e-9", "score 'accuracy' of part ''"),
    "an interval": ("UPDATE score SET low = 0.0", "score 'accuracy' of part ''"),
}


def fill(path: Path) -> None:
    answers = Predictions(["a", "b", "c"], ["x", "y", "x"], ["x", "x", "x"], scores=[0.9, 0.5, 1.0])
    with Store.open(path) as store:
        run = store.begin_run(RunSpec("m/one", "foxes", "probe/x"))
        store.write_part(run, PartResult(answers, "p"))
        store.finish_run(run, [Score("accuracy", 2 / 3, low=0.2, high=0.9, n=3, is_primary=True)])


@pytest.mark.parametrize("name", FLIPS)
def test_what_changed_in_the_store_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results" / "fieldmark.db"
    path.parent.mkdir()
    fill(path)
    assert command(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert rows == [{"what": "predictions and scores", "state": "as it was written"}]
    statement, text = FLIPS[name]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    assert command(["doctor"]) == 3
    told = capsys.readouterr().out
    assert f"run 1: {text}" in told and "damaged: run it again" in told
    with Store.open(tmp_path / "main.db") as main:
        counts = merge_shards(main, [path])
        assert counts.n_runs == 0 and len(main.runs()) == 0
        assert "not as they were written" in str(counts.faults[0][1])


def test_checksums_enter_with_the_runs_of_other_files(tmp_path: Path) -> None:
    fill(tmp_path / "a.db")
    with Store.open(tmp_path / "main.db") as main:
        first = main.begin_run(RunSpec("m/other", "foxes", "probe/x"))
        main.write_part(first, PartResult(Predictions(["z"], ["y"], ["y"]), "other"))
        assert merge_shards(main, [tmp_path / "a.db"]).n_runs == 1
        assert main.damage() == []

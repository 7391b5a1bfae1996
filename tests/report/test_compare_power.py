"""How many more units would show a difference: by what was measured, task by task."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from fieldmark.cli import main
from fieldmark.metrics import load_metric
from fieldmark.stats import Items, compare
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store

N, SIZE = 240, 4


@pytest.fixture
def right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Which items each of two models has right; four photos of each of 60 animals."""
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FIELDMARK_RESULTS", str(tmp_path))
    random = np.random.default_rng(0)
    skills = {"m/one": 0.7, "m/two": 0.68}
    right = {model: random.random(N) < skill for model, skill in skills.items()}
    with Store.open(tmp_path / "fieldmark.db") as store:
        for task, (model, own) in itertools.product(("t", "other"), right.items()):
            run = store.begin_run(RunSpec(model, task, "probe/x", {"parts": [""]}))
            answers = ["fox" if one else "hare" for one in (own if task == "t" else own[::-1])]
            ids = [f"{task}{n}" for n in range(N)]
            units = [f"{task} unit {n // SIZE}" for n in range(N)]
            predictions = Predictions(ids, ["fox"] * N, answers, units=units)
            store.write_part(run, PartResult(predictions))
            score = Score("accuracy", float(own.mean()), low=0.6, high=0.8, n=N, is_primary=True)
            store.finish_run(run, [score])
    return right


def rows_of(told: str) -> list[list[str]]:
    lines = told[told.index("to see 4 times in 5") :].split("\n\n")[0].splitlines()
    return [line.rsplit(maxsplit=5) for line in lines[1:]]


def test_more_units_are_told_for_every_wanted_difference(right, capsys) -> None:
    assert main(["compare", "one", "two", "--task", "t", "--power", "2", "--power", "50"]) == 0
    told = capsys.readouterr().out
    unit = np.arange(N) // SIZE
    a, b = (np.where(own, 0, 1) for own in right.values())
    spread = compare(Items(np.zeros(N, int), unit), a, b, load_metric("accuracy")).spread
    needed = spread.units_to_detect(0.02)
    assert needed is not None and needed > 60
    more = needed - 60
    assert rows_of(told) == [
        ["t accuracy", "2", "60", f"{needed:,}", f"{more:,}", f"{SIZE * more:,}"],
        ["t accuracy", "50", "60", str(spread.units_to_detect(0.5)), "0", "0"],
    ]
    assert "every task grows" not in told


def test_several_tasks_need_less_together_than_each_alone(right, capsys) -> None:
    assert main(["compare", "one", "two", "--power", "2", "--json"]) == 0
    together, *alone = json.loads(capsys.readouterr().out)["power"]
    assert together["heading"] == "all tasks together" and len(alone) == 2
    assert (together["n_units"], together["n_items"]) == (120, 480)
    assert together["more_units"] == together["needed"] - 120
    assert together["more_items"] == SIZE * together["more_units"]
    assert together["needed"] < sum(row["needed"] for row in alone)
    assert main(["compare", "one", "two", "--json"]) == 0
    assert "power" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("points", ["0", "-2", "inf", "nan"])
def test_a_difference_is_above_zero(points, right, capsys) -> None:
    assert main(["compare", "one", "two", f"--power={points}"]) == 2
    assert f"--power {points}: expected a difference above 0, in points." in capsys.readouterr().err

"""How many more units would show a difference: by what was measured, task by task."""

from __future__ import annotations

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
        for model, own in right.items():
            run = store.begin_run(RunSpec(model, "t", "probe/x", {"parts": [""]}))
            answers = ["fox" if one else "hare" for one in own]
            ids, units = [f"i{n}" for n in range(N)], [f"u{n // SIZE}" for n in range(N)]
            predictions = Predictions(ids, ["fox"] * N, answers, units=units)
            store.write_part(run, PartResult(predictions))
            score = Score("accuracy", float(own.mean()), low=0.6, high=0.8, n=N, is_primary=True)
            store.finish_run(run, [score])
    return right


def rows_of(told: str) -> list[list[str]]:
    return [line.split() for line in told.splitlines() if line.startswith("t ")][1:]


def test_more_units_are_told_for_every_wanted_difference(right, capsys) -> None:
    assert main(["compare", "one", "two", "--power", "2", "--power", "50"]) == 0
    told = capsys.readouterr().out
    unit = np.arange(N) // SIZE
    a, b = (np.where(own, 0, 1) for own in right.values())
    spread = compare(Items(np.zeros(N, int), unit), a, b, load_metric("accuracy")).spread
    needed = spread.units_to_detect(0.02)
    assert needed is not None and needed > 60
    more = needed - 60
    assert rows_of(told) == [
        ["t", "2", "60", f"{needed:,}", f"{more:,}", f"{SIZE * more:,}"],
        ["t", "50", "60", str(spread.units_to_detect(0.5)), "0", "0"],
    ]
    assert "4 times in 5" in told


def test_programs_read_the_same(right, capsys) -> None:
    assert main(["compare", "one", "two", "--power", "2", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    (power,) = row["power"]
    assert power["difference"] == 2.0 and power["needed_units"] > 60
    assert power["more_units"] == power["needed_units"] - 60
    assert power["more_items"] == SIZE * power["more_units"]
    assert main(["compare", "one", "two", "--json"]) == 0
    assert "power" not in json.loads(capsys.readouterr().out)[0]


@pytest.mark.parametrize("points", ["0", "-2"])
def test_a_difference_is_above_zero(points, right, capsys) -> None:
    assert main(["compare", "one", "two", f"--power={points}"]) == 2
    assert f"--power {points}: expected a difference above 0, in points." in capsys.readouterr().err

"""Which places may a model have over all tasks, and are they told?"""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark import draws
from fieldmark.report import plain_ranks, read_table, wide_table
from fieldmark.report.cells import Row
from fieldmark.report.table.ranking import agreement, grid_of, model_ranks
from fieldmark.store import Run, RunSpec, Score, Store


def asked(model: str, task: str) -> RunSpec:
    return RunSpec(model, task, "probe/x")


@pytest.fixture
def empty(tmp_path):
    with Store.open(tmp_path / "places.db") as opened:
        yield opened


def fill(store, filled, n_right: dict[str, int], n_tasks: int = 6, n: int = 200) -> None:
    """Equal models get other items right, by the same number."""
    for number, (model, right) in enumerate(n_right.items()):
        for task in range(n_tasks):
            answers = np.roll(np.arange(n) < right, 7 * number)
            filled(store, asked(model, f"t{task}"), {"": answers})


def test_a_model_far_ahead_has_the_first_place_alone_and_equals_share_the_rest(empty, filled):
    fill(empty, filled, {"m/best": 190, "m/one": 90, "m/two": 90})
    found = model_ranks(grid_of(read_table(empty, compare=False)))
    assert found["m/best"].text == "1"
    assert found["m/one"].text == found["m/two"].text == "2–3"


def test_the_wide_table_and_json_tell_the_places(empty, filled):
    fill(empty, filled, {"m/best": 190, "m/one": 90, "m/two": 88})
    table = read_table(empty, compare=False)
    lines = wide_table(table, 200).splitlines()
    assert "rank" in lines[1] and "2–3" in lines[3]
    assert any(line.startswith("Do the tasks order the models alike?") for line in lines)
    assert plain_ranks(table)["m/best"] == {"rank": 1.0, "rank_low": 1, "rank_high": 1}


def test_a_model_with_gaps_has_no_place(empty, filled):
    fill(empty, filled, {"m/best": 190, "m/one": 90})
    filled(empty, asked("m/part", "t0"), {"": np.ones(200, bool)})
    table = read_table(empty, compare=False)
    assert set(model_ranks(grid_of(table))) == {"m/best", "m/one"}
    assert plain_ranks(table)["m/part"]["rank"] is None


def test_one_task_or_one_model_has_no_place(empty, filled):
    fill(empty, filled, {"m/best": 190, "m/one": 90}, n_tasks=1)
    table = read_table(empty, compare=False)
    assert model_ranks(grid_of(table)) == {} and agreement(grid_of(table)) == ""
    assert "rank" not in wide_table(table)


def test_places_do_not_change_from_call_to_call(empty, filled):
    fill(empty, filled, {"m/a": 100, "m/b": 103, "m/c": 106})
    grid = grid_of(read_table(empty, compare=False))
    assert model_ranks(grid) == model_ranks(grid)


def test_tasks_that_turn_the_order_round_are_named(empty, filled):
    for task, skills in {
        "up": (50, 100, 150),
        "alike": (60, 90, 160),
        "down": (150, 100, 50),
    }.items():
        for model, right in zip("abc", skills, strict=True):
            filled(empty, asked(f"m/{model}", task), {"": np.arange(200) < right})
    said = agreement(grid_of(read_table(empty, compare=False)))
    assert "−1.00" in said and "down" in said


def simulated(random: np.random.Generator, skill_m: np.ndarray, n_tasks: int) -> dict:
    """Scores of 300 items with their own intervals; every task suits some models more."""
    grid = {}
    run = Run(1, asked("m", "t"), "", "done", None, "", "", None, 1.0, 300, 300, "", "")
    for task in range(n_tasks):
        true_m = 0.55 + 0.1 * random.normal() + skill_m + 0.04 * random.normal(size=len(skill_m))
        for model, true in enumerate(np.clip(true_m, 0.05, 0.95)):
            value = float(random.binomial(300, true) / 300)
            half = 1.96 * float(np.sqrt(max(value * (1 - value), 0.01) / 300))
            score = Score("accuracy", value, low=value - half, high=value + half, n=300)
            grid[f"m{model}", f"t{task}"] = Row(run, score, f"m{model}", f"t{task}")
    return grid


@pytest.mark.parametrize("gap", [0.008, 0.04])
@pytest.mark.parametrize("n_tasks", [4, 10])
def test_the_true_place_lies_within_the_places_told(gap, n_tasks):
    random = draws.generator(0, "places", "", f"simulation {gap} {n_tasks}")
    skill_m = -gap * np.arange(6.0)
    hits = []
    for _ in range(40):
        found = model_ranks(simulated(random, skill_m, n_tasks))
        hits += [found[f"m{m}"].low <= m + 1 <= found[f"m{m}"].high for m in range(6)]
    assert np.mean(hits) >= 0.92

"""Is the training's luck told apart from the test items' luck?"""

from __future__ import annotations

import numpy as np
import pytest

from fieldmark.report import compare_models, comparison_text, plain_comparison, read_table
from fieldmark.report.table.notes import run_spread, training_notes
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store

N = 400


@pytest.fixture
def empty(tmp_path):
    with Store.open(tmp_path / "repeats.db") as opened:
        yield opened


def write(store, model: str, right_rn: np.ndarray, ids=None) -> None:
    """A run whose repeats got these items right; `ids` names the items of each repeat."""
    run = store.begin_run(RunSpec(model, "t", "probe/x", {"parts": [""]}, repeats=len(right_rn)))
    for repeat, right in enumerate(right_rn):
        names = [f"i{each:04d}" for each in (range(N) if ids is None else ids[repeat])]
        answers = np.where(right, "fox", "hare").tolist()
        given = Predictions(names, ["fox"] * len(right), answers)
        store.write_part(run, PartResult(given, repeat=repeat))
    value = float(right_rn.mean())
    score = Score("accuracy", value, low=value - 0.05, high=value + 0.05, n=N, is_primary=True)
    store.finish_run(run, [score])


def shaky() -> np.ndarray:
    """Repeats that differ much, on items that do not."""
    skill = np.array([0.3, 0.5, 0.7, 0.9, 0.5, 0.6])
    return np.random.default_rng(1).random((6, N)) < skill[:, None]


def steady() -> np.ndarray:
    """The same answers in every repeat."""
    return np.repeat(np.random.default_rng(2).random((1, N)) < 0.5, 6, axis=0)


def test_a_shaky_training_and_hard_items_are_told_apart(empty):
    write(empty, "m/shaky", shaky())
    write(empty, "m/steady", steady())
    found = {row.model: run_spread(empty, row) for row in read_table(empty, compare=False).rows}
    assert found["m/shaky"].training_sd > 5 * found["m/shaky"].test_sd
    assert found["m/steady"].training_sd == 0 < found["m/steady"].test_sd


def test_items_that_only_some_repeats_asked_are_left_out(empty):
    ids = [[each for each in range(N) if each % 50 != repeat] for repeat in range(6)]
    right = np.stack([steady()[0][mine] for mine in ids])
    write(empty, "m/few-shot", right, ids)
    (row,) = read_table(empty, compare=False).rows
    found = run_spread(empty, row)
    assert found.n_units == N - 6 * (N // 50) and found.training_sd == 0


def test_other_items_in_each_repeat_tell_nothing(empty):
    ids = [range(repeat * N, (repeat + 1) * N) for repeat in range(6)]
    write(empty, "m/folds", shaky(), ids)
    (row,) = read_table(empty, compare=False).rows
    assert run_spread(empty, row) is None and training_notes(empty, [row]) == []


def test_table_and_comparison_say_where_the_spread_comes_from(empty):
    write(empty, "m/shaky", shaky())
    write(empty, "m/steady", steady())
    notes = training_notes(empty, read_table(empty, compare=False).rows)
    assert "mostly the training" in notes[1] and "mostly the test items" in notes[2]
    questions = compare_models(empty, "shaky", "steady")
    assert "t: A: standard deviation" in comparison_text(questions, 200)
    assert plain_comparison(questions[0])["spread_b"]["n_repeats"] == 6


def test_a_run_without_repeats_has_no_note(empty):
    write(empty, "m/once", steady()[:1])
    assert training_notes(empty, read_table(empty, compare=False).rows) == []

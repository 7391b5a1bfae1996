"""Do several runs' answers come side by side?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fieldmark.store import PartResult, Predictions, RunSpec, Store

ONE = RunSpec("m/one", "t", "probe/x")
TWO = RunSpec("m/two", "t", "probe/x")


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "fieldmark.db") as opened:
        yield opened


def written(store, spec, *parts: PartResult) -> int:
    run = store.begin_run(spec)
    for part in parts:
        store.write_part(run, part)
    return run


def part(ids, targets, answers, name="", scores=None) -> PartResult:
    return PartResult(Predictions(ids, targets, answers, scores, units=["u"] * len(ids)), part=name)


def named(store, answers):
    texts = {
        0: None,
        -1: "?",
        **store.texts({*answers.item, *answers.target, *answers.prediction_mn.flat}),
    }
    return (
        [texts[each] for each in answers.item],
        [texts[each] for each in answers.target],
        [[texts[each] for each in row] for row in answers.prediction_mn],
    )


def test_runs_on_the_same_items_stand_side_by_side_and_share_what_was_asked(store):
    one = written(store, ONE, part(["b", "a"], ["x", "y"], ["x", "x"], scores=[0.5, None]))
    two = written(store, TWO, part(["a", "b"], ["y", "x"], ["y", None]))
    found = store.answers([two, one], with_scores=True)
    assert named(store, found) == (["a", "b"], ["y", "x"], [["y", None], ["x", "x"]])
    assert np.isnan(found.score_mn[0]).all() and found.score_mn[1, 1] == 0.5
    assert store._database.rows("SELECT count(*) FROM item_list") == [(1,)]
    store.drop_run(ONE.name)
    assert store._database.rows("SELECT count(*) FROM item_list") == [(1,)]
    store.drop_run(TWO.name)
    assert store._database.rows("SELECT count(*) FROM item_list") == [(0,)]


def test_only_common_items_with_the_same_target_are_compared(store):
    one = written(store, ONE, part(["a", "b", "c"], ["x", "y", "x"], ["x", "y", "y"]))
    two = written(store, TWO, part(["c", "z", "b"], ["x", "y", "OTHER"], ["x", "y", "y"]))
    assert named(store, store.answers([one, two])) == (["c"], ["x"], [["y"], ["x"]])


def test_parts_that_one_run_lacks_are_left_out(store):
    one = written(store, ONE, part(["a"], ["x"], ["x"], "p"), part(["a"], ["x"], ["x"], "q"))
    two = written(store, TWO, part(["a"], ["x"], ["y"], "q"))
    found = store.answers([one, two])
    assert store.texts(found.part.tolist())[found.part[0]] == "q"
    assert found.prediction_mn.shape == (2, 1)


def test_nothing_in_common_is_an_empty_matrix(store):
    one = written(store, ONE, part(["a"], ["x"], ["x"]))
    two = written(store, TWO, part(["b"], ["x"], ["x"]))
    assert store.answers([one, two]).prediction_mn.shape == (2, 0)
    assert store.answers([one, store.begin_run(replace(TWO, seed=5))]).prediction_mn.shape == (2, 0)


# --- draws of several runs ---


def test_draws_are_put_side_by_side_and_one_draw_stands_for_all(store):
    """The first row has two seeds, the second two repeats, the third was asked once."""
    runs = [
        written(store, replace(ONE, seed=seed), part(["a", "b"], ["x", "y"], [answer, answer]))
        for seed, answer in enumerate("xy")
    ]
    first = part(["a", "b"], ["x", "y"], ["x", "y"])
    two = written(store, TWO, first, replace(first, repeat=1))
    three = written(store, replace(TWO, model="m/three"), part(["a", "b"], ["x", "y"], ["z", "z"]))
    found = store.drawn_answers([[(run, 0), (two, n), (three, 0)] for n, run in enumerate(runs)])
    assert found.repeat.tolist() == [0, 0, 1, 1]
    assert named(store, found)[2] == [list("xxyy"), list("xyxy"), list("zzzz")]
    assert store.repeats([two, *runs]) == {two: [0, 1], runs[0]: [0], runs[1]: [0]}


def test_items_most_rows_were_asked_are_kept_and_others_were_not_asked(store):
    both = part(["a", "b", "c"], ["x", "y", "x"], ["x", "y", "y"])
    one, two = written(store, ONE, both), written(store, TWO, both)
    less = part(["b", "c", "z"], ["y", "OTHER", "x"], ["y", "x", "x"], scores=[0.1, 0.2, 0.3])
    three = written(store, replace(TWO, model="m/three"), less)
    found = store.drawn_answers([[(three, 0), (one, 0), (two, 0)]], with_scores=True)
    assert named(store, found)[0] == ["a", "b", "c"]
    assert named(store, found)[2] == [["?", "y", "?"], list("xyy"), list("xyy")]
    assert found.score_mn[0].tolist()[1] == 0.1 and np.isnan(found.score_mn[0, [0, 2]]).all()
    absent = store.begin_run(replace(TWO, seed=5))
    assert store.drawn_answers([[(absent, 0), (absent, 0)]]).prediction_mn.shape == (2, 0)
    assert (store.drawn_answers([[(one, 0), (absent, 0)]]).prediction_mn[1] == -1).all()

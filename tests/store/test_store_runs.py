"""Runs, parts, predictions and scores: what goes in comes out, whole or not at all."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import fields, replace

import numpy as np
import polars as pl
import pytest

from fieldmark.errors import DataError, StoreError
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store

FULL = Score(
    "accuracy", 0.713, "", 0.69, 0.73, 0.9, 412, 37, "wilson", True, higher_is_better=False
)

COLUMNS = [each.name for each in fields(Predictions)]


def test_predictions_come_back_as_they_went_in(store, spec, result):
    run = store.begin_run(spec)
    store.write_part(run, result)
    frame = store.predictions(run)
    given = result.predictions
    assert frame.columns == [
        *("part", "repeat", "id", "target", "prediction", "score", "unit", "outcome", "info"),
        "content",
    ]
    assert frame["id"].to_list() == given.ids
    assert frame["target"].to_list() == given.targets
    assert frame["prediction"].to_list() == given.predictions
    assert frame["score"].to_list() == given.scores
    assert frame["unit"].to_list() == given.units
    assert frame["outcome"].to_list() == given.outcomes
    assert frame["info"].to_list() == given.infos
    assert frame["content"].to_list() == [None, None, None]
    assert frame["part"].unique().to_list() == [""]


def test_unicode_none_nan_and_infinity_survive(store, spec):
    names = ["Åland/ä b.jpg", "日本/鳥🐦.png", "quote'\"; DROP TABLE run;--", "nul\0byte"]
    given = Predictions(names, [None, "ö", "''", "x\0y"], names, [math.nan, -math.inf, 0.1, None])
    run = store.begin_run(spec)
    store.write_part(run, PartResult(given, part="Ω→α", repeat=3))
    frame = store.predictions(run, "Ω→α").sort("prediction")
    order = sorted(range(4), key=lambda i: names[i])
    assert frame["id"].to_list() == [names[i] for i in order]
    assert frame["target"].to_list() == [given.targets[i] for i in order]
    assert frame["score"].to_list() == [[None, -math.inf, 0.1, None][i] for i in order]
    assert frame["unit"].null_count() == 4
    assert frame["repeat"].to_list() == [3] * 4


def test_the_content_of_items_comes_back(store, spec, result):
    digests = [bytes(range(16)), None, bytes(range(1, 17))]
    known = replace(result.predictions, contents=digests)
    other = replace(spec, seed=1)
    for each, given in ((spec, known), (other, result.predictions)):
        store.write_part(store.begin_run(each), replace(result, predictions=given))
    assert store.predictions(1)["content"].to_list() == digests
    assert store.predictions(1).schema["content"] == pl.Binary
    assert store.predictions(2)["content"].to_list() == [None] * 3
    assert store._database.rows("SELECT count(*) FROM item_list") == [(2,)]
    backwards = replace(
        known, **{name: list(getattr(known, name))[::-1] for name in COLUMNS if name != "contents"}
    )
    store.write_part(1, replace(result, predictions=replace(backwards, contents=digests[::-1])))
    assert store.predictions(1)["content"].to_list() == digests, "in the order of the items' names"
    with pytest.raises(ValueError, match="has 16 bytes"):
        short = replace(known, contents=[b"short", None, None])
        store.write_part(1, replace(result, predictions=short))


def test_a_run_knows_the_folder_of_its_data(store, spec):
    run = store.begin_run(spec, root="/data/beluga")
    assert store.run(spec.name).root == "/data/beluga"
    assert store.begin_run(spec, root="/data/copy") == run
    assert store.run(spec.name).root == "/data/copy"


def test_arrays_and_series_are_welcome(store, spec):
    given = Predictions(
        np.array(["a", "b"]),
        pl.Series(["x", None]),
        np.array(["x", "y"]),
        np.array([0.5, np.nan], np.float32),
    )
    run = store.begin_run(spec)
    store.write_part(run, PartResult(given))
    assert store.predictions(run)["score"].to_list() == [0.5, None]
    assert store.predictions(run)["target"].to_list() == ["x", None]


def test_order_does_not_depend_on_who_wrote_first(tmp_path, spec, result):
    forward, backward = replace(result, part="p1"), replace(result, part="p2")
    frames = []
    for name, parts in (("one", [forward, backward]), ("two", [backward, forward])):
        with Store.open(tmp_path / f"{name}.db") as store:
            if name == "two":  # numbers of names differ between the two files
                other = Predictions(["c.jpg", "a.jpg"], ["z", "z"], ["z", "z"])
                store.write_part(store.begin_run(replace(spec, seed=9)), PartResult(other))
            run = store.begin_run(spec)
            for part in parts:
                store.write_part(run, part)
            frames.append(store.predictions(run))
    assert frames[0].equals(frames[1])


def test_scores_come_back_with_direction_and_interval(store, spec):
    run = store.begin_run(spec)
    by_part = [Score("accuracy", 0.5, "bird"), Score("macro_f1", math.nan)]
    store.finish_run(run, [*by_part, FULL])
    whole, undefined, bird = store.scores()[run]
    assert whole == FULL
    assert undefined.metric == "macro_f1" and math.isnan(undefined.value)
    assert bird == by_part[0]


def test_rescoring_keeps_the_predictions(store, spec, result):
    run = store.begin_run(spec)
    store.write_part(run, result)
    store.finish_run(run, [FULL])
    before = store.predictions(run)
    store.rescore_run(run, [Score("macro_f1", 0.2)])
    assert [each.metric for each in store.scores()[run]] == ["macro_f1"]
    assert store.predictions(run).equals(before)


def test_a_run_goes_from_running_to_done(store, spec, result):
    run = store.begin_run(spec, {"command": ["fieldmark", "run"]}, "weights-1")
    assert not store.is_done(spec.name)
    store.write_part(run, result)
    store.write_part(run, replace(result, repeat=1))
    store.finish_run(run, [FULL])
    assert store.is_done(spec.name) and {
        run.key for run in store.runs() if run.state == "done"
    } == {spec.key}
    (found,) = store.runs()
    assert (found.id, found.spec, found.key, found.state) == (run, spec, spec.key, "done")
    assert (found.n_items, found.n_ok, found.seconds) == (6, 4, 3.0)
    assert found.fingerprint == "weights-1" and found.finished is not None
    assert store.record(run) == {"command": ["fieldmark", "run"]}
    assert store.run(spec.name) == found
    assert store.outcomes(run) == {"ok": 4, "unparsed": 2}


def test_an_unfinished_run_is_taken_up_again(store, spec, result):
    run = store.begin_run(spec, {"host": "a"}, "weights-1")
    store.write_part(run, result)
    store.fail_run(run, "Traceback ...\nValueError: no")
    assert store.runs()[0].state == "failed" and store.runs()[0].error.endswith("ValueError: no")
    assert store.begin_run(spec, {"host": "b"}, "weights-1") == run
    (part,) = store.finished_parts(run)
    assert (part.part, part.repeat, part.n_train, part.n_items, part.n_ok) == ("", 0, 8, 3, 2)
    assert part.info == {"alpha": 0.5}
    assert store.record(run) == {"host": "b", "earlier": [{"host": "a"}]}
    assert store.runs()[0].state == "running" and store.runs()[0].error is None


def test_parts_of_other_weights_are_not_mixed_in(store, spec, result):
    run = store.begin_run(spec, fingerprint="weights-1")
    store.write_part(run, result)
    assert store.begin_run(spec) == run, "an unknown fingerprint keeps what is there"
    assert len(store.finished_parts(run)) == 1
    assert store.begin_run(spec, fingerprint="weights-2") == run
    assert store.finished_parts(run) == [] and store.predictions(run).is_empty()


def test_a_done_run_stays_done(store, spec, result):
    run = store.begin_run(spec, fingerprint="weights-1")
    store.write_part(run, result)
    store.finish_run(run, [FULL])
    assert store.begin_run(spec, fingerprint="weights-2") == run
    store.fail_run(run, "too late")
    assert store.is_done(spec.name) and len(store.predictions(run)) == 3


def test_dropping_a_run_takes_everything_with_it(store, spec, result):
    run = store.begin_run(spec)
    store.write_part(run, result)
    store.finish_run(run, [FULL])
    assert store.drop_run(spec.name) and not store.drop_run(spec.name)
    assert store.runs() == [] and store.scores() == {} and store.predictions(run).is_empty()
    assert store.begin_run(spec) != run, "numbers are never given twice"


def test_a_part_written_twice_is_replaced(store, spec, result):
    run = store.begin_run(spec)
    store.write_part(run, result)
    fewer = Predictions(["a.jpg"], ["fox"], ["hare"])
    store.write_part(run, replace(result, predictions=fewer))
    assert store.predictions(run)["prediction"].to_list() == ["hare"]


def test_writing_to_a_dropped_run_is_told(store, spec, result, path):
    run = store.begin_run(spec)
    store.drop_run(spec.name)
    with pytest.raises(StoreError) as caught:
        store.write_part(run, result)
    wanted = f"{path}  run {run} is not there (any more): another process dropped it."
    assert str(caught.value) == wanted


def test_defect_upstream_duplicate_ids_collapse(store, spec, result):
    run = store.begin_run(spec)
    ids = ["a.jpg", "b.jpg", "a.jpg"]
    twins = replace(result, predictions=replace(result.predictions, ids=ids))
    with pytest.raises(DataError) as caught:
        store.write_part(run, twins)
    assert str(caught.value) == (
        "part '', repeat 0: 1 ids have more than one prediction ('a.jpg'): ids must be unique; "
        "nothing of this part was stored."
    )
    assert store.finished_parts(run) == []


def test_a_failed_write_leaves_no_false_memory_of_names(store, spec, result):
    run = store.begin_run(spec)
    unfit = replace(result.predictions, infos=[None, None, object()])
    with pytest.raises(TypeError):
        store.write_part(run, replace(result, predictions=unfit))
    store.write_part(run, result)
    assert store.predictions(run)["id"].to_list() == ["a.jpg", "b.jpg", "c.jpg"]


def test_no_answer_is_never_a_wrong_answer(store, spec):
    run = store.begin_run(spec)
    given = Predictions(["a"], ["x"], ["y"], outcomes=["refused"])
    with pytest.raises(ValueError, match="only the outcome 'ok' may have a prediction"):
        store.write_part(run, PartResult(given))


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ((["a"], ["x", "y"], ["x"]), ValueError, "differ in length"),
        ((["a"], [3], ["x"]), TypeError, "a name is text, found 3"),
        (([None], ["x"], ["x"]), TypeError, "has no id"),
    ],
)
def test_malformed_columns_are_refused(store, spec, columns, error, text):
    run = store.begin_run(spec)
    with pytest.raises(error, match=text):
        store.write_part(run, PartResult(Predictions(*columns)))
    assert store.finished_parts(run) == []


def test_names_that_are_not_unicode_are_told(store, spec):
    run = store.begin_run(spec)
    with pytest.raises(DataError) as caught:
        store.write_part(run, PartResult(Predictions(["bad\udcff"], ["x"], ["x"])))
    assert str(caught.value) == (
        "the name 'bad\\udcff' is not valid Unicode and cannot be stored: rename it."
    )


def test_an_empty_part_counts_as_finished(store, spec):
    run = store.begin_run(spec)
    store.write_part(run, PartResult(Predictions([], [], []), part="nothing"))
    assert [each.part for each in store.finished_parts(run)] == ["nothing"]
    assert store.predictions(run).is_empty()


def test_more_names_than_one_query_takes(store, spec):
    ids = [f"{index:06d}" for index in range(35_000)]
    run = store.begin_run(spec)
    store.write_part(run, PartResult(Predictions(ids, ids, ids)))
    with Store.open(store.path, read_only=True) as fresh:
        frame = fresh.predictions(run)
    assert frame["id"].to_list() == ids and frame["target"].to_list() == ids


def test_runs_are_filtered(store, spec):
    specs = [
        spec,
        replace(spec, model="timm/resnet18?pretrained=false"),
        replace(spec, task="newt", protocol="probe/svm", n_train=None),
        replace(spec, protocol="zero_shot", seed=7, task_variant="closed"),
    ]
    for each in specs:
        store.begin_run(each)

    def found(**wanted) -> list[RunSpec]:
        return [run.spec for run in store.runs(RunFilter(**wanted))]

    assert len(found()) == 4
    assert found(models=("timm/*",)) == [specs[1]]
    assert found(models=("timm/resnet18?pretrained=false",)) == [specs[1]]
    assert found(tasks=("newt", "nothing")) == [specs[2]]
    assert len(found(protocols=("probe",))) == 3
    assert found(protocols=("probe/svm",)) == [specs[2]]
    assert found(n_train=(None,)) == [specs[2]]
    assert found(seeds=(7,), variants=("closed",)) == [specs[3]]
    assert found(states=("done",)) == []


def test_every_field_of_a_spec_defines_the_run(spec):
    others = {"model": "m", "task": "t", "protocol": "p", "settings": {"k": 2}, "n_train": 11}
    others |= {"n_test": 5, "seed": 1, "repeats": 2, "task_variant": "v", "task_version": "2"}
    others |= {"data": "d", "model_version": "w"}
    assert set(others) == {each.name for each in fields(spec)}
    names = {spec.name} | {replace(spec, **{name: value}).name for name, value in others.items()}
    assert len(names) == len(others) + 1
    assert replace(spec, data="d").key == spec.key, "content stands beside the key"
    assert replace(spec, settings={"k": 1}).key == spec.key


def test_settings_in_another_order_are_the_same_run(spec):
    one = replace(spec, settings={"a": 1, "b": [1, 2], "ü": "é"})
    two = replace(spec, settings={"ü": "é", "b": (1, 2), "a": 1})
    assert one.key == two.key


def test_defect_small_data_metrics_done_runs_are_found_by_what_was_asked(store, spec, result):
    """The shots really used (8) differ from those asked for (10): still the same run."""
    run = store.begin_run(spec)
    store.write_part(run, result)
    store.finish_run(run, [FULL])
    assert store.finished_parts(run)[0].n_train == 8
    assert store.is_done(replace(spec).name)
    assert not store.is_done(replace(spec, n_train=8).name)


def test_people_can_read_the_scores_with_plain_sql(store, spec, result, path):
    run = store.begin_run(spec)
    store.write_part(run, result)
    store.finish_run(run, [FULL])
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT model, task, metric, value, low, high FROM score JOIN run ON run.id = run"
        ).fetchall()
    connection.close()
    assert rows == [(spec.model, spec.task, FULL.metric, FULL.value, FULL.low, FULL.high)]

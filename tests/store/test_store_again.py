"""Doing a done run again, and runs that others have taken the place of."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace

import pytest

from fieldmark.store import PartResult, Predictions, RunFilter, Score, Store
from kit import forked

OLD = [Score("accuracy", 0.5, is_primary=True)]
NEW = [Score("accuracy", 1.0, is_primary=True)]


@pytest.fixture
def done(store, spec, result) -> int:
    run = store.begin_run(spec, {"host": "a"}, "weights-1")
    store.write_part(run, result)
    store.finish_run(run, OLD)
    return run


def better(result: PartResult, part: str = "") -> PartResult:
    given = replace(result.predictions, predictions=["fox", "hare", "fox"], outcomes=None)
    return replace(result, predictions=given, part=part)


def check_untouched(store, spec, run) -> None:
    """Whatever a report asks, the done run answers."""
    assert store.is_done(spec.name) and {
        run.key for run in store.runs() if run.state == "done"
    } == {spec.key}
    assert store.run(spec.name).id == run and store.run(spec.name).state == "done"
    assert [each.id for each in store.runs()] == [run]
    assert store.runs(RunFilter(states=("running", "failed"))) == []
    assert store.scores() == {run: OLD}
    assert store.predictions(run)["prediction"].to_list() == ["fox", "fox", None]


def test_a_run_done_again_replaces_the_old_one_when_it_is_finished(store, spec, result, done):
    """Defect 8: `--force` deletes the finished run first."""
    run = store.begin_run(spec, {"host": "b"}, "weights-1", root="/data", again=True)
    assert run != done
    check_untouched(store, spec, done)
    store.write_part(run, better(result))
    check_untouched(store, spec, done)
    store.finish_run(run, NEW)
    (found,) = store.runs()
    assert (found.id, found.state, found.root) == (run, "done", "/data")
    assert store.scores() == {run: NEW} and store.predictions(done).is_empty()
    assert store.predictions(run)["prediction"].to_list() == ["fox", "hare", "fox"]
    assert store.begin_run(spec) == run


def test_a_failure_leaves_the_done_run_whole(store, spec, result, done):
    run = store.begin_run(spec, again=True)
    store.write_part(run, better(result))
    store.fail_run(run, "ValueError: no")
    check_untouched(store, spec, done)
    store.fail_run(store.run(spec.name).id, "ValueError: no")
    check_untouched(store, spec, done)


def test_what_failed_to_replace_a_run_goes_on_or_goes(store, spec, result, done):
    run = store.begin_run(spec, fingerprint="weights-1", again=True)
    store.write_part(run, better(result))
    assert store.begin_run(spec, fingerprint="weights-1", again=True) == run
    assert len(store.finished_parts(run)) == 1, "parts that are there are kept"
    assert store.begin_run(spec, fingerprint="weights-2", again=True) == run
    assert store.finished_parts(run) == [], "unless they are another model's"
    assert store.begin_run(spec) == done
    assert store._database.rows("SELECT id FROM run") == [(done,)]
    check_untouched(store, spec, done)


def test_finishing_is_one_transaction(store, spec, result, done):
    run = store.begin_run(spec, again=True)
    store.write_part(run, better(result))
    with pytest.raises(AttributeError):
        store.finish_run(run, [*NEW, None])
    check_untouched(store, spec, done)


def test_an_unfinished_run_goes_on_although_all_is_to_be_done_again(store, spec, result):
    run = store.begin_run(spec)
    store.write_part(run, result)
    assert store.begin_run(spec, again=True) == run and len(store.finished_parts(run)) == 1
    assert [each.state for each in store.runs()] == ["running"]


def test_dropping_takes_both(store, spec, done):
    store.begin_run(spec, again=True)
    assert store.drop_run(spec.name)
    assert store._database.rows("SELECT count(*) FROM run") == [(0,)]


KILLED = """
import os, signal, sys
from fieldmark.store import PartResult, Predictions, Store
with Store.open(sys.argv[1]) as store:
    (old,) = store.runs()
    run = store.begin_run(old.spec, again=True)
    store.write_part(run, PartResult(Predictions(["a.jpg"], ["fox"], ["fox"]), part="first"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_kill_nine_leaves_the_done_run_whole(path, spec, result, store, done):
    store.close()
    killed = forked.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with Store.open(path) as again:
        check_untouched(again, spec, done)
        run = again.begin_run(spec, again=True)
        assert [each.part for each in again.finished_parts(run)] == ["first"]
        again.finish_run(run, NEW)
        assert again.scores() == {run: NEW}


def finish(store, spec, root="/data/beluga") -> int:
    run = store.begin_run(spec, root=root)
    store.write_part(run, PartResult(Predictions(["a"], ["x"], ["x"])))
    store.finish_run(run, OLD)
    return run


def test_a_run_on_data_changed_in_place_is_superseded(store, spec):
    """Defect W7: a corrected label makes a second column, and their mean is shown."""
    first = finish(store, replace(spec, data="rows1-content1"))
    assert store.superseded() == {}
    second = finish(store, replace(spec, data="rows2-content1"))
    third = finish(store, replace(spec, data="rows2-content2"))
    assert store.superseded() == {first: third, second: third}


def test_what_differs_otherwise_supersedes_nothing(store, spec):
    finish(store, replace(spec, data="1"))
    finish(store, replace(spec, data="2", seed=1))
    finish(store, replace(spec, data="2", model_version="m#2"))
    finish(store, replace(spec, data="2", n_train=None))
    finish(store, replace(spec, data="2"), root="/data/cropped")
    store.begin_run(replace(spec, data="3"), root="/data/beluga")
    for number in (1, 2):
        finish(store, replace(spec, data=str(number), seed=9), root="")
    assert store.superseded() == {}


def test_photos_put_back_make_the_older_run_the_right_one(store, spec):
    original, changed = replace(spec, data="1"), replace(spec, data="2")
    first, second = finish(store, original), finish(store, changed)
    assert store.superseded() == {first: second}
    store.confirm({original.name: ""})
    assert store.superseded() == {second: first}
    third = finish(store, replace(spec, data="3"))
    assert store.superseded() == {first: third, second: third}


def test_a_run_done_again_is_the_newest(store, spec):
    original, changed = replace(spec, data="1"), replace(spec, data="2")
    finish(store, original)
    second = finish(store, changed)
    run = store.begin_run(original, root="/data/beluga", again=True)
    assert list(store.superseded().values()) == [second]
    store.finish_run(run, NEW)
    assert store.superseded() == {second: run}

"""Ways of asking one task are rows, seeds are draws of one cell: by real runs of shipped tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fieldmark.cli import main
from fieldmark.report import part_table, plain_rows, read_table, wide_table
from fieldmark.report.setup_labels import setup_labels
from fieldmark.store import Run, RunFilter, RunSpec, Store
from fieldmark.world import World
from kit.identity import edit, make_world, run_it
from kit.made import make_dataset

COLOUR, PIXELS, WORDS = "classical/colour", "classical/pixels", "classical/words"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models asked two tasks in their own way (probes differ), and one of them otherwise."""
    place = tmp_path_factory.mktemp("asked")
    make_dataset("world", place / "world", 300, World(seed=0))

    def run(*words: str) -> None:
        common = ["--results", str(place / "results"), "--data", f"world={place / 'world'}"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FIELDMARK_CACHE", str(place / "cache"))
            assert main(["run", *words, *common, "--quiet"]) == 0

    both = ["--model", COLOUR, "--model", PIXELS]
    run(*both, "--task", "world-species", "--task", "world-habitat")
    run(*both, "--task", "world-species", "--n-train", "24", "--seed", "0", "1", "2")
    run("--model", COLOUR, "--task", "world-species", "--n-train", "24", "--repeats", "2")
    run("--model", COLOUR, "--task", "world-species", "--probe", "neighbours")
    run("--model", COLOUR, "--task", "world-species@ridge")
    run("--model", WORDS, "--task", "world-species")
    return place


def open_at(place: Path) -> Store:
    return Store.open(place / "results" / "fieldmark.db", read_only=True)


def test_a_row_is_a_model_asked_in_one_way(asked: Path) -> None:
    with open_at(asked) as store:
        table = read_table(store)
    assert {row.column_key for row in table.rows} == {
        ("world-species\nsynthetic", "accuracy"),
        ("world-habitat\nsynthetic", "accuracy"),
    }
    rows = {row.name: row for row in table.rows if row.heading == "world-species synthetic"}
    assert set(rows) == {
        f"{COLOUR} (probe)",
        f"{COLOUR} (probe, n_train=24)",
        f"{COLOUR} (probe, classifier=neighbours)",
        f"{COLOUR} (ridge)",
        f"{PIXELS} (probe)",
        f"{PIXELS} (probe, n_train=24)",
        f"{WORDS} (probe)",
        f"{WORDS} (zero_shot)",
    }
    assert {row.setup for row in table.rows if row.run.spec.task == "world-habitat"} == {"probe"}, (
        "own probes of two tasks differ, and stand in one row"
    )


def test_seeds_are_draws_of_one_cell(asked: Path) -> None:
    with open_at(asked) as store:
        cells = {row.name: row for row in read_table(store).rows}
        single = read_table(store, RunFilter(n_train=(24,)), by_run=True).rows
        table = read_table(store, RunFilter(n_train=(24,)))
    pixels = cells[f"{PIXELS} (probe, n_train=24)"]
    own = [row.score.value for row in single if row.model == PIXELS]
    assert [run.spec.seed for run in pixels.runs] == [0, 1, 2] and len(own) == 3
    assert pixels.score.value == pytest.approx(np.mean(own))
    assert pixels.score.method == "units and training draws"
    assert pixels.score.low < pixels.score.value < pixels.score.high
    assert pixels.run.finished == max(run.finished for run in pixels.runs)
    colour = cells[f"{COLOUR} (probe, n_train=24)"]
    assert [run.spec.repeats for run in colour.runs] == [2, 1, 1], "most repeats of a seed"
    note = "1 run with fewer repeats is not shown (`fieldmark table --long` lists all)."
    assert note in table.notes
    assert {row.setup for row in table.rows} == {""}, "asked in one way: not named"


def test_one_training_says_what_its_interval_does_not_hold(asked: Path) -> None:
    with open_at(asked) as store:
        one = wide_table(read_table(store, RunFilter(n_train=(24,), seeds=(1,))))
        several = wide_table(read_table(store, RunFilter(n_train=(24,))))
        every = wide_table(read_table(store, RunFilter(n_train=(None,))))
    words = "The margin of 2 scores leaves out differences between training samples"
    assert words in one and "for these test photos" in one
    assert words not in several
    assert "for these test photos and training samples" in " ".join(several.split())
    assert words not in every, "nothing was drawn"


def test_programs_read_the_way_and_the_seeds(asked: Path) -> None:
    with open_at(asked) as store:
        rows = plain_rows(read_table(store))
    (row,) = (r for r in rows if r["model"] == PIXELS and r["setup"] == "probe, n_train=24")
    assert row["seeds"] == [0, 1, 2] and json.dumps(row)


def test_the_table_has_a_column_of_ways(asked: Path) -> None:
    with open_at(asked) as store:
        lines = wide_table(read_table(store), 200).splitlines()
        plain = wide_table(read_table(store, RunFilter(models=(PIXELS,), n_train=(None,))), 200)
    heading = next(line for line in lines if line.startswith("model"))
    assert heading.split()[:2] == ["model", "setup"]
    assert any(line.split()[:2] == [WORDS, "zero_shot"] for line in lines)
    assert " way " not in plain


# --- labels of runs as they might be ---


def runs_of(*specs: RunSpec) -> list[Run]:
    empty = Run(0, specs[0], "", "done", None, "", "", "2026", 1.0, 9, 9, "", "")
    return [replace(empty, id=n, spec=spec, finished=f"{n}") for n, spec in enumerate(specs, 1)]


def labels_of(*specs: RunSpec) -> list[str]:
    return list(setup_labels(runs_of(*specs)).values())


OWN = RunSpec("m/a", "mine", "probe/svm", {"probe": {"classifier": "svm", "C": 1.0}})


def test_a_task_without_a_file_is_its_own_as_most_models_were_asked() -> None:
    other = replace(OWN, settings={"probe": {"classifier": "svm", "C": 2.0}})
    labels = labels_of(OWN, replace(OWN, model="m/b"), other)
    assert labels == ["probe", "probe", "probe, C=2.0"]


def test_of_ways_asked_equally_often_the_first_by_name_is_the_tasks_own() -> None:
    other = replace(OWN, settings={"probe": {"classifier": "svm", "C": 2.0}})
    assert labels_of(OWN, other) == ["probe", "probe, C=2.0"]
    assert labels_of(other, OWN) == ["probe, C=2.0", "probe"]


def test_names_do_not_depend_on_the_order_of_settings() -> None:
    ways = [{"C": 1.0, "tol": 0.1}, {"C": 2.0, "tol": 0.2}]
    turned = [dict(reversed(way.items())) for way in ways]
    labels = [
        labels_of(*(replace(OWN, settings={"probe": way}) for way in each))
        for each in (ways, turned)
    ]
    assert labels == [["probe", "probe, C=2.0"]] * 2


def test_what_a_way_lacks_is_said_in_words() -> None:
    searching = replace(OWN, settings={"probe": {"search": "grid"}})
    both = labels_of(searching, replace(searching, model="m/b"), replace(OWN, settings={}))
    assert both == ["probe", "probe", "probe, no search"]
    valued = replace(OWN, settings={"probe": {"tol": 0.5}})
    named = labels_of(searching, replace(searching, model="m/b"), valued)
    assert named[2] == "probe, tol=0.5", "what it has is named before what it lacks"


@pytest.mark.parametrize("is_own_first", [True, False])
def test_the_plain_name_is_what_the_users_file_says(tmp_path: Path, is_own_first: bool) -> None:
    place = make_world(tmp_path)
    changed = {"probe": "neighbours", "n_train": 6}
    for axes in ({}, changed) if is_own_first else (changed, {}):
        run_it(place, COLOUR, "zoo.yaml", **axes)
    (place / "zoo.yaml").unlink()
    with open_at(place) as store:
        ways = {row.run.spec.protocol: row.setup for row in read_table(store).rows}
    own, other = sorted(ways.values(), key=len)
    assert own == "probe" and other == "probe, n_train=6"
    assert ways["probe/neighbours"] == other


def test_an_edited_file_says_which_way_is_its_own_now(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    run_it(place, COLOUR, "zoo.yaml")
    edit(place / "zoo.yaml", 'probe: {classifier: "pr.py:P"}', "probe: {classifier: neighbours}")
    run_it(place, COLOUR, "zoo.yaml")
    with open_at(place) as store:
        ways = {row.run.spec.protocol: row.setup for row in read_table(store).rows}
    assert ways.pop("probe/neighbours") == "probe"
    assert [*ways.values()] == ["probe, classifier=P"]


def test_a_variant_that_is_the_only_way_is_not_named() -> None:
    assert labels_of(replace(OWN, task_variant="old")) == [""]
    assert labels_of(OWN, replace(OWN, task_variant="old")) == ["probe", "old"]
    shown = replace(OWN, task_variant="old", protocol="zero_shot", settings={})
    assert labels_of(OWN, replace(OWN, task_variant="old"), shown) == [
        "probe", "probe, old", "zero_shot, old",
    ]  # fmt: skip


def test_a_model_asked_each_task_in_one_way_has_one_row() -> None:
    shown = replace(OWN, protocol="retrieve", task="captions", settings={})
    assert labels_of(OWN, shown) == ["", ""]
    twice = replace(OWN, model="m/b"), replace(OWN, model="m/b", protocol="ask", settings={})
    assert labels_of(OWN, shown, *twice) == ["", "", "probe", "ask"]


def test_what_one_task_has_alone_is_named_if_another_has_it_beside_its_own() -> None:
    few = replace(OWN, n_train=10)
    alone = replace(OWN, task="other", n_train=10)
    assert labels_of(replace(few, task="other")) == [""]
    assert labels_of(OWN, few, alone) == ["probe", "probe, n_train=10", "probe"]
    both = replace(OWN, task="other"), alone
    assert labels_of(OWN, few, *both) == ["probe", "probe, n_train=10"] * 2


def test_labels_do_not_depend_on_the_order_of_runs() -> None:
    specs = [OWN, replace(OWN, n_train=10), replace(OWN, protocol="probe/ridge", settings={})]
    runs = runs_of(*specs)
    assert setup_labels(runs) == setup_labels(runs[::-1])
    assert len(set(setup_labels(runs).values())) == 3


def test_parts_of_several_draws_have_a_mean_and_say_so(tmp_path: Path, filled) -> None:
    with Store.open(tmp_path / "parts.db") as store:
        for seed, n_right in enumerate((10, 14)):
            answers = {"p": np.arange(20) < n_right, "q": np.arange(20) < 5}
            filled(store, RunSpec("m", "newt", "probe/svm", {}, n_train=8, seed=seed), answers)
        rows = {row.score.part: row for row in read_table(store, by_part=True).rows}
        text = part_table(read_table(store, by_part=True))
    assert rows["p"].score.value == 0.6 and rows["p"].score.low is None
    assert rows[""].score.low is not None
    assert "60.0 (n=20)" in " ".join(text.split())
    assert "‡ newt: no interval: only the mean over training samples is known here" in text

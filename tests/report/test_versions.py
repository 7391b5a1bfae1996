"""Versions of models and of data stand apart, wherever results are shown: by real runs."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.errors import UnknownName, UsageError
from fieldmark.report import compare_models, plain_rows, read_table, verdict, wide_table
from fieldmark.report.facts import signature, signatures
from fieldmark.report.plots import draw, read_results
from fieldmark.report.run_labels import _shortened
from fieldmark.report.site import build_summary
from fieldmark.report.table.ranking import grid_of
from fieldmark.store import RunFilter, Store
from kit.identity import edit, make_world, read_items, run_it, runs_at, write_items
from kit.pictures import write_image

COLOUR = "classical/colour"


def second_task(place: Path) -> None:
    text = (place / "zoo.yaml").read_text()
    (place / "other.yaml").write_text(text.replace("zoo\n", "other\n", 1))


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks; a model of one's own, edited between its runs of the first."""
    place = make_world(tmp_path_factory.mktemp("edited"))
    (place / "other.yaml").write_text(
        (place / "zoo.yaml").read_text().replace("zoo\n", "other\n", 1)
    )
    mine = f"{place}/m.py:Mine"
    (place / "empty").mkdir()
    with chdir(place / "empty"):  # the model reads every .npy of the folder it is started in
        for model in (mine, COLOUR):
            run_it(place, model, "zoo.yaml")
            run_it(place, model, "other.yaml")
        edit(place / "helper.py", "x / 255.0", "x * 0.0")
        run_it(place, mine, "zoo.yaml")
    return place


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One task run on two folders with the same file names, and another task on one."""
    place = make_world(tmp_path_factory.mktemp("folders"))
    shutil.copytree(place / "photos", place / "cropped")
    for name in ("01-0.png", "04-0.png", "05-0.png"):
        write_image(place / "cropped" / name, 999)
    (place / "other.yaml").write_text(
        (place / "zoo.yaml").read_text().replace("zoo\n", "other\n", 1)
    )
    for model in (COLOUR, "classical/texture"):
        run_it(place, model, "other.yaml")
        for folder in ("photos", "cropped"):
            run_it(place, model, "zoo.yaml", changes={"data": {"zoo": place / folder}})
    return place


def open_at(place: Path) -> Store:
    return Store.open(place / "results" / "fieldmark.db", read_only=True)


def marks_of(place: Path) -> list[str]:
    """The marks of the versions of Mine, the oldest first."""
    runs = sorted(runs_at(place), key=lambda run: run.id)
    versions = [run.spec.model_version for run in runs if "Mine" in run.spec.model]
    return [each.rpartition("#")[2] for each in dict.fromkeys(versions)]


def test_an_edited_model_is_two_rows_and_no_mean_is_over_two_versions(edited: Path) -> None:
    old, new = marks_of(edited)
    with open_at(edited) as store:
        table = read_table(store)
    labels = {row.model for row in table.rows}
    assert labels == {COLOUR, f"m.py:Mine#{old[:4]}", f"m.py:Mine#{new[:4]}"}
    places = {(row.model, row.column) for row in table.rows}
    assert len(places) == len(table.rows) == len(runs_at(edited)) == 5
    text = wide_table(table, 200)
    (line,) = [line for line in text.splitlines() if line.startswith(f"m.py:Mine#{new[:4]} ")]
    assert re.search(r"\s–\s", line), "the new version was run on one task of two: no mean"
    assert f"m.py:Mine has 2 versions here; m.py:Mine#{new[:4]} was run last." in text


def test_one_version_alone_keeps_the_plain_name(edited: Path) -> None:
    old, new = marks_of(edited)
    with open_at(edited) as store:
        for mark, n in ((old[:4], 2), (new[:6], 1), (new, 1)):
            rows = read_table(store, RunFilter(models=(f"m.py:Mine#{mark}",))).rows
            assert {row.model for row in rows} == {"m.py:Mine"} and len(rows) == n
            assert {row.run.spec.model_version for row in rows} == {
                f"m.py:Mine#{old if mark in old else new}"
            }
        with pytest.raises(UnknownName, match="m.py:Mine#0000"):
            read_table(store, RunFilter(models=("m.py:Mine#0000zz",)))


@pytest.mark.parametrize("name", ["m.py:Mine", "./m.py:Mine", "/else/where/m.py:Mine", "*.py:Mine"])
def test_a_model_is_found_whatever_the_path(edited: Path, name: str) -> None:
    old, _ = marks_of(edited)
    with open_at(edited) as store:
        assert len(store.runs(RunFilter(models=(name,)))) == 3
        assert len(store.runs(RunFilter(models=(f"{name}#{old[:4]}",)))) == 2


def test_compare_takes_versions_by_name_and_else_the_newest(edited: Path) -> None:
    old, new = marks_of(edited)
    first, second = f"m.py:Mine#{old[:4]}", f"m.py:Mine#{new[:4]}"
    with open_at(edited) as store:
        (question,) = compare_models(store, first, second).tasks
        assert (question.a.model, question.b.model) == (first, second)
        assert question.a.score.value > question.b.score.value
        newest = compare_models(store, "m.py:Mine", COLOUR)
        assert newest.tasks[0].a.model == second
        assert newest.setups[0] == f"{second} is the newest of 2 versions (others: {first})."
        oldest = compare_models(store, first, COLOUR)
        assert len(oldest.tasks) == 2 and oldest.notes == ()
        with pytest.raises(UsageError, match="name two of its versions"):
            compare_models(store, "m.py:Mine", "Mine")


def test_plots_draw_each_version_on_its_own(edited: Path) -> None:
    old, new = marks_of(edited)
    with open_at(edited) as store:
        results = read_results(store, RunFilter(tasks=("zoo",)))
        spec = json.dumps(draw("forest", results))
    for mark in (old, new):
        assert f"m.py:Mine#{mark[:4]}" in spec


def test_page_table_and_json_say_the_same(edited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_at(edited) as store:
        table, summary = read_table(store), build_summary(store)
    main(["table", "--json", "--results", str(edited / "results")])
    rows = json.loads(capsys.readouterr().out)
    from_table = {(r.model, r.column): (r.score.value, r.tier, r.is_counted) for r in table.rows}
    from_json = {
        (r["model_label"], r["column"]): (r["value"], r["tier"], r["is_counted"]) for r in rows
    }
    names = [each["name"] for each in summary["rows"]]
    heads = ["\n".join((each["heading"], *each["lines"])) for each in summary["columns"]]
    counts = [each["is_counted"] for each in summary["columns"]]
    from_page = {
        (names[cell[0]], heads[cell[1]]): (cell[2], cell[7], counts[cell[1]])
        for cell in summary["cells"]
    }
    assert from_table == from_json
    assert {k: (pytest.approx(v[0], abs=1e-5), *v[1:]) for k, v in from_table.items()} == from_page
    assert len(rows) == len(summary["cells"]) == len(table.rows)
    assert summary["notes"][: len(table.notes)] == list(table.notes)
    assert summary["verdict"] == verdict(table)


def test_shortened_marks_tell_all_apart_and_keep_the_precision() -> None:
    marks = ["4ae7da83c0ffee12", "4ae7db83c0ffee12", "bf16-4ae7da83c0ffee12"]
    assert list(_shortened(marks).values()) == ["4ae7da", "4ae7db", "bf16-4ae7da"]
    assert list(_shortened(marks[1:]).values()) == ["4ae7", "bf16-4ae7"]


# --- data versions ---


def test_two_folders_are_two_columns_that_share_no_mean(folders: Path) -> None:
    with open_at(folders) as store:
        table = read_table(store)
        summary = build_summary(store)
        ranks = json.dumps(draw("ranks", read_results(store)), ensure_ascii=False)
    heads = {row.column: row.is_counted for row in table.rows}
    assert heads == {"other": True, "zoo\ndata=photos": False, "zoo\ndata=cropped": True}
    assert {column for _, column in grid_of(table)} == {
        "other\naccuracy",
        "zoo\ndata=cropped\naccuracy",
    }
    note = (
        "zoo has 2 data versions (cropped, photos). Means and ranks use cropped; "
        "--data zoo=FOLDER chooses another folder."
    )
    assert note in table.notes
    assert [each["is_counted"] for each in summary["columns"]].count(True) == 2
    assert "data=photos" in ranks and "data=cropped" in ranks


def test_a_second_folder_deletes_no_verdict(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest folder, or the one named, has the table's verdict; the other has its own."""
    table = ["table", "--task", "zoo", "--results", str(folders / "results")]
    counted = {}
    for named in ("", "photos", "cropped"):
        flags = ["--data", f"zoo={folders / named}"] if named else []
        assert main([*table, *flags, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        (counted[named],) = {row["column"] for row in rows if row["is_counted"]}
        assert main([*table, *flags]) == 0
        sentences = " ".join(capsys.readouterr().out.partition("\n\n")[0].split())
        own, other = sentences.index("data=photos"), sentences.index("data=cropped")
        assert (own < other) == (named == "photos")
    assert counted == {
        "": "zoo\ndata=cropped",
        "photos": "zoo\ndata=photos",
        "cropped": "zoo\ndata=cropped",
    }
    with open_at(folders) as store:
        page = build_summary(store)
    assert all(column["verdict"] for column in page["columns"])


def test_the_signature_tells_two_folders_apart(folders: Path) -> None:
    with open_at(folders) as store:
        rows = read_table(store, RunFilter(tasks=("zoo",))).rows
    by_data = {row.run.spec.data: signature(row.run.spec) for row in rows}
    assert len(by_data) == len(set(by_data.values())) == len(signatures(rows)) == 2
    assert all(f"data={data} " in line for data, line in by_data.items())
    assert len({data.partition("-")[0] for data in by_data}) == 1, "same names and labels"


def test_longer_tails_tell_folders_of_one_name_apart(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    for folder in ("a", "b"):
        shutil.copytree(place / "photos", place / folder / "photos")
        write_image(place / folder / "photos" / "04-0.png", ord(folder))
        changes = {"data": {"zoo": place / folder / "photos"}}
        run_it(place, COLOUR, "zoo.yaml", changes=changes)
    with open_at(place) as store:
        heads = {row.column for row in read_table(store).rows}
    assert heads == {"zoo\ndata=a/photos", "zoo\ndata=b/photos"}


def test_a_superseded_run_is_hidden_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make_world(tmp_path)
    run_it(place, COLOUR, "zoo.yaml")
    run_it(place, "classical/texture", "zoo.yaml")
    rows = read_items(place)
    rows[4] |= {"label": "cat", "common": "a cat"}
    write_items(place, rows)
    run_it(place, COLOUR, "zoo.yaml")
    note = "1 superseded run is not shown (its data changed since): `fieldmark runs ls`."
    with open_at(place) as store:
        table = read_table(store)
        assert note in table.notes
        colour = [row for row in table.rows if row.model == COLOUR]
        assert [(row.column, row.is_counted) for row in colour] == [("zoo\ndata=photos", True)]
        (texture,) = (row for row in table.rows if row.model != COLOUR)
        assert texture.column == "zoo\ndata=photos (older)" and not texture.is_counted
        assert note in read_results(store).table.notes
        assert note in build_summary(store)["notes"]
    results = ["--results", str(place / "results")]
    for command in (["table", "--json"], ["export", "csv"], ["plot", "forest", "--json"]):
        assert main([*command, *results]) == 0
        assert "1 superseded run is not shown" in capsys.readouterr().err
    run_it(place, "classical/texture", "zoo.yaml")
    assert main(["compare", "colour", "texture", *results]) == 0
    printed = capsys.readouterr()
    assert "2 superseded runs are not shown" in printed.err
    with open_at(place) as store:
        assert {row.column for row in read_table(store).rows} == {"zoo"}


def test_seeds_are_one_cell_whatever_images_they_drew(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    values = [run_it(place, COLOUR, "zoo.yaml", n_train=3, seed=seed) for seed in (0, 1)]
    with open_at(place) as store:
        (row,) = read_table(store).rows
    assert row.column == "zoo" and row.is_counted
    assert len({run.spec.data for run in row.runs}) == len(row.runs) == 2
    assert row.score.value == pytest.approx(sum(values) / 2)


def test_ways_that_ran_in_two_folders_are_two_data_versions(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    shutil.copytree(place / "photos", place / "cropped")
    write_image(place / "cropped" / "04-0.png", 999)
    run_it(place, COLOUR, "zoo.yaml")
    run_it(place, COLOUR, "zoo.yaml", n_train=3, changes={"data": {"zoo": place / "cropped"}})
    with open_at(place) as store:
        rows = read_table(store).rows
    assert {row.column for row in rows} == {"zoo\ndata=photos", "zoo\ndata=cropped"}
    assert [row.data for row in rows if row.is_counted] == ["cropped"], "the newest"


def test_plain_rows_say_which_version_is_meant(edited: Path) -> None:
    with open_at(edited) as store:
        rows = plain_rows(read_table(store))
    assert all(row["model_version"].startswith(row["model_label"]) for row in rows)


def test_labels_do_not_depend_on_the_order_of_runs(edited: Path) -> None:
    from fieldmark.report.run_labels import columns_of_runs, model_labels

    runs = runs_at(edited)
    assert model_labels(runs) == model_labels(runs[::-1])
    assert columns_of_runs(runs) == columns_of_runs(runs[::-1])
    alone = [replace(run, spec=replace(run.spec, model_version="")) for run in runs]
    assert {*model_labels(alone).values()} == {COLOUR, f"{edited}/m.py:Mine"}

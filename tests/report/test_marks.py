"""Stand-ins and synthetic photos: marked wherever they are shown; stand-ins compete in nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.data import load_dataset
from fieldmark.report import compare_models, comparison_text, read_table, wide_table
from fieldmark.report.compare.published import match_published, published
from fieldmark.report.plots import draw, read_results
from fieldmark.report.rows import without_stand_ins
from fieldmark.report.site.summary import build_summary
from fieldmark.store import Marks, PartResult, Predictions, RunSpec, Score, Store
from fieldmark.world import World

MOCK, CONTROL = Marks("mock"), Marks("control")
WREN, CHANCE = "chat/mock/wren", "classical/chance"
LABELS = ("fox", "hare", "owl")
N = 60
RIGHT = {WREN: 60, "timm/good": 48, "timm/poor": 30, CHANCE: 20}
"""of the answers, how many are right: the mock has them all"""


def write_run(store: Store, model: str, task: str, n_right: int, marks: Marks) -> None:
    """The first items are answered rightly."""
    settings, data = {"parts": [""], "score": "pooled"}, f"{task} {marks.is_synthetic}"
    spec = RunSpec(model, task, "probe/ridge", settings, data=data)
    run = store.begin_run(spec, {"config": {"task": FACTS.get(task, {})}}, marks=marks)
    ids, targets = [f"i{n:02d}" for n in range(N)], [LABELS[n % 3] for n in range(N)]
    given = [LABELS[(n + (n >= n_right)) % 3] for n in range(N)]
    store.write_part(run, PartResult(Predictions(ids, targets, given)))
    value = n_right / N
    score = Score("accuracy", value, low=value - 0.1, high=value + 0.1, n=N, is_primary=True)
    store.finish_run(run, [score])


FACTS: dict[str, dict[str, Any]] = {
    "newt": {"title": "NeWT: questions of the natural world", "dataset": "newt"},
    "leaves": {"title": "Leaves", "dataset": "folder"},
}
STAND_INS = {WREN: "mock", CHANCE: "control"}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path / "results" / "fieldmark.db") as opened:
        for task in ("leaves", "stages"):
            for model, n_right in RIGHT.items():
                write_run(opened, model, task, n_right, Marks(STAND_INS.get(model, "")))
        yield opened


@pytest.fixture
def drawn(tmp_path: Path) -> Any:
    """NeWT as it was drawn: the questions are those of the real dataset."""
    with Store.open(tmp_path / "drawn" / "fieldmark.db") as opened:
        for model, n_right in RIGHT.items():
            write_run(opened, model, "newt", n_right, Marks(STAND_INS.get(model, ""), True))
        yield opened


# --- stand-ins ---


def test_a_stand_in_is_in_no_verdict_tier_mean_or_rank(store: Store) -> None:
    """Defect: "Best: chat/mock/wren (ask); all others are worse." over a real network."""
    table = read_table(store)
    assert {row.model for row in without_stand_ins(table.rows)} == {"timm/good", "timm/poor"}
    assert {row.tier for row in table.rows if row.stand_in} == {None}
    assert table.study is not None and table.study.overall is not None
    assert {one.name for one in table.study.overall.standings} == {"timm/good", "timm/poor"}
    text = wide_table(table, 200)
    assert text.startswith("Best overall (2 tasks): timm/good. Clearly worse: timm/poor.\n")
    lines = [line for line in text.splitlines() if "/" in line.split(" ")[0]]
    assert [line.split("  ")[0] for line in lines[:4]] == [
        "timm/good", "timm/poor", f"{WREN} (mock)", f"{CHANCE} (control)",
    ]  # fmt: skip
    assert all(line.split()[2:5] == ["–", "–", "–"] for line in lines[2:4]), "no mean, no rank"
    assert "are stand-ins: they are in no verdict, tier, mean or rank." in text


def test_one_model_beside_stand_ins_has_no_rival(tmp_path: Path) -> None:
    with Store.open(tmp_path / "one.db") as store:
        for model in (WREN, CHANCE, "timm/good"):
            write_run(store, model, "leaves", RIGHT[model], Marks(STAND_INS.get(model, "")))
        table = read_table(store)
    text = wide_table(table, 200)
    assert "Best" not in text and {row.tier for row in table.rows} == {None}
    column = next(iter(table.study.columns.values())) if table.study else None
    assert column is not None and column.is_told_from_blind, "the model itself is better than that"


def test_programs_are_told_who_stands_in(store: Store, tmp_path: Path, capsys: Any) -> None:
    place = ["--results", str(tmp_path / "results")]
    assert main(["table", "--json", *place]) == 0
    rows = json.loads(capsys.readouterr().out)
    said = {row["model"]: row["stand_in"] for row in rows}
    assert said == {**dict.fromkeys(RIGHT, ""), **STAND_INS}
    assert {row["rank_low"] for row in rows if row["stand_in"]} == {None}
    assert {row["mean_above_chance"] for row in rows if row["stand_in"]} == {None}
    assert main(["compare", "good", "wren", "--json", *place]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert (compared["stand_in_a"], compared["stand_in_b"]) == ("", "mock")


def test_a_stand_in_that_is_named_is_compared_and_called_one(store: Store) -> None:
    text = " ".join(comparison_text(compare_models(store, "good", "wren"), 400).split())
    assert f"{WREN} (mock) scores 20.0 points higher than timm/good" in text
    assert f"{WREN} (mock) is a stand-in, not a model." in text
    assert "stand-in" not in comparison_text(compare_models(store, "good", "poor"), 400)


def test_plots_name_stand_ins_and_put_models_first(store: Store) -> None:
    results = read_results(store)
    assert [row.model for row in next(iter(results.columns().values()))] == [
        "timm/good", "timm/poor", WREN, CHANCE,
    ]  # fmt: skip
    text = json.dumps(draw("forest", results))
    assert f"{WREN} (mock)" in text and "are stand-ins" in text
    for name in ("difference", "ranks"):
        assert "(mock)" not in json.dumps(draw(name, results)), name
    mixed = json.dumps(draw("confusion", results))
    assert "leaves: timm/good" in mixed and "mock" not in mixed and "The best of 2" in mixed


def test_the_page_knows_stand_ins(store: Store) -> None:
    summary = build_summary(store)
    assert [(row["model"], row["stand_in"]) for row in summary["rows"]] == [
        ("timm/good", ""), ("timm/poor", ""), (WREN, "mock"), (CHANCE, "control"),
    ]  # fmt: skip
    assert summary["verdict"].startswith("Best overall (2 tasks): timm/good.")
    assert all("mock" not in column["verdict"] for column in summary["columns"])
    assert any("stand-ins" in note for note in summary["notes"])


def test_pages_about_models_get_no_stand_in(store: Store, tmp_path: Path, capsys: Any) -> None:
    place = ["--results", str(tmp_path / "results")]
    assert main(["export", "model-index", "--out", str(tmp_path / "index"), *place]) == 0
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [
        "timm_good.yaml", "timm_poor.yaml",
    ]  # fmt: skip
    told = " ".join(capsys.readouterr().err.split())
    assert f"stand-ins, which are not models: {WREN}, {CHANCE}" in told
    assert main(["export", "card", "--out", str(tmp_path / "cards"), *place]) == 0
    card = (tmp_path / "cards" / "chat_mock_wren.md").read_text()
    assert "chat/mock/wren (mock) is a stand-in, not a model" in card


# --- synthetic photos ---


def test_synthetic_stands_beside_the_task(drawn: Store) -> None:
    """Defect: a table of drawings read as results on NeWT."""
    table = read_table(drawn)
    assert {row.heading for row in table.rows} == {"newt synthetic"}
    text = wide_table(table, 120)
    heads = [line.split() for line in text.splitlines()]
    assert heads.index(["newt"]) + 1 == heads.index(["synthetic"]), "right under the name"
    assert "synthetic: fieldmark drew these photos." in text
    forest = draw("forest", read_results(drawn))
    assert forest["title"]["text"] == ["Scores of 2 models on newt (synthetic)"]


def test_drawings_have_no_licence_or_citation_of_photos(drawn: Store, tmp_path: Path) -> None:
    info = load_dataset("newt").INFO
    (task,) = build_summary(drawn)["tasks"]
    assert task["name"] == "newt (synthetic)" and task["title"].endswith("(synthetic)")
    assert not {"licence", "citation", "homepage", "dataset_title"} & task.keys()
    assert task["about"].startswith("These photos are synthetic:")
    place = ["--results", str(tmp_path / "drawn")]
    for form in ("card", "model-index", "json", "csv"):
        assert main(["export", form, "--out", str(tmp_path / form), *place]) == 0
        files = (tmp_path / form, *(tmp_path / form).rglob("*"))
        text = "".join(path.read_text() for path in files if path.is_file())
        assert "synthetic" in text
        for real in (info.licence, info.citation, info.homepage, info.title):
            assert real not in text, (form, real)


def test_drawings_and_photos_share_no_column_and_no_mean(store: Store) -> None:
    for model in ("timm/good", "timm/poor"):
        write_run(store, model, "leaves", 45, Marks("", True))
    table = read_table(store)
    columns = {(row.heading, row.is_counted) for row in table.rows}
    assert columns == {("leaves", True), ("stages", True), ("leaves synthetic", False)}
    assert table.rows[-1].is_synthetic and not table.rows[0].is_synthetic, "photos come first"
    assert wide_table(table, 200).startswith("Best overall (2 tasks)")
    assert "Means and ranks count leaves, stages only: the other tasks" in " ".join(table.notes)
    names = [task["name"] for task in build_summary(store)["tasks"]]
    assert sorted(names) == ["leaves", "leaves (synthetic)", "stages"]


def test_drawings_agree_with_no_published_score(tmp_path: Path) -> None:
    number = next(one for one in published() if one.task and one.models and not one.faulty)
    task, _, variant = number.task.partition("@")
    spec = RunSpec(number.models[0], task, number.protocol, task_variant=variant)
    with Store.open(tmp_path / "p.db") as store:
        run = store.begin_run(spec, marks=Marks("", True))
        n = number.n_items or 100
        store.finish_run(run, [Score(number.metric, number.value / 100, n=n, is_primary=True)])
        (match,) = match_published(read_table(store, compare=False).rows, [number])
    assert (match.verdict, match.why) == ("not comparable", "ours are drawings, not these photos")


# --- from the command line ---

LEAVES = """
task: leaves
title: Leaves
dataset: folder
metric: accuracy
probe: {classifier: simpleshot}
ask: {prompt: Which is it?, kind: choice}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", "cache")
    load_dataset("folder").make(tmp_path / "data" / "folder", World(), 40)
    (tmp_path / "leaves.yaml").write_text(LEAVES)
    return tmp_path


def test_a_mock_is_refused_on_real_photos(here: Path, capsys: Any) -> None:
    """Defect: 76 % on real leaf photos, and "Best" over a real network."""
    (here / "data" / "folder" / "SYNTHETIC.txt").unlink()
    words = ["--model", WREN, "--task", "leaves.yaml"]
    why = (
        "model 'chat/mock/wren' is a mock that knows the right answers. It runs on synthetic "
        "photos only, and those of task 'leaves.yaml' are real. `fieldmark models` lists "
        "real models."
    )
    assert main(["run", *words, "--quiet"]) == 2
    assert capsys.readouterr().err == f"fieldmark: {why}\n"
    assert main(["plan", *words, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["status"], job["why"]) == ("refused", why)
    assert main(["run", "--model", CHANCE, "--task", "leaves.yaml", "--quiet"]) == 0


def test_a_run_keeps_what_it_was_done_on(here: Path, capsys: Any) -> None:
    words = ["run", "--model", WREN, "--model", CHANCE, "--task", "leaves.yaml", "--quiet"]
    assert main(words) == 0
    path = here / "results" / "fieldmark.db"
    with Store.open(path, read_only=True) as store:
        marks = {run.spec.model: run.marks for run in store.runs()}
    assert marks == {WREN: Marks("mock", True), CHANCE: Marks("control", True)}
    (here / "data" / "folder" / "SYNTHETIC.txt").unlink()
    assert main(["run", "--model", CHANCE, "--task", "leaves.yaml", "--quiet"]) == 0
    with Store.open(path, read_only=True) as store:
        chance = next(run for run in store.runs() if run.spec.model == CHANCE)
    assert chance.id == 2 and chance.marks == CONTROL, "done before, and confirmed as it is now"

"""Reports of runs in lmms-eval's form: by what documents were worth, never by labels."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from fieldmark.cli import main
from fieldmark.errors import DataError
from fieldmark.lmms.report import data_name, hub_name, item_values, split_name
from fieldmark.report import (
    compare_models,
    comparison_text,
    long_table,
    read_table,
    sliced,
    wide_table,
)
from fieldmark.report.export import choose, export
from fieldmark.report.plots import draw, read_results
from fieldmark.report.serve import LiveResults
from fieldmark.report.site.predictions import read_column
from fieldmark.report.site.summary import columns_of, summarise
from fieldmark.settings import Settings
from fieldmark.store import RunFilter, Store
from kit import document_results as kit
from kit.document_results import GOOD, POOR, TASKS


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("documents") / "results" / "fieldmark.db"
    return kit.make_document_results(made)


@pytest.fixture
def store(path: Path):
    with Store.open(path, read_only=True) as opened:
        yield opened


def worth(model: str, task: str, pipeline: str = "none") -> np.ndarray:
    made = TASKS[task]
    return kit.worth(model, made, pipeline)[made.n_failed :]


def test_tiers_rest_on_the_values_of_documents(store):
    table = read_table(store)
    tiers = {(row.model, row.run.spec.task): row.tier for row in table.rows}
    assert tiers[GOOD, "birds-choice"] == "A" and tiers[POOR, "birds-choice"] == "B"
    assert tiers[GOOD, "birds-count"] == "A", "a small error is better"
    assert tiers[POOR, "birds-count"] == "B"
    assert tiers[GOOD, "birds-f1"] is None
    text = wide_table(table)
    line = "no tiers for birds-f1: f1 is a function of all documents, not a mean over them"
    assert line in text.splitlines()
    assert "chat/lab/good-1b, birds-filters: 6 of 60 failed: run the same command again" in text


def test_a_metric_with_fieldmarks_own_name_is_not_mistaken_for_it(store):
    """No text equals its target in the kit: label metrics would say 0 everywhere."""
    found = compare_models(store, GOOD, POOR, RunFilter(tasks=("birds-filters",))).tasks[0]
    a, b = worth(GOOD, "birds-filters"), worth(POOR, "birds-filters")
    assert found.comparison.difference == pytest.approx((a.sum() - b.sum()) / 60), "failed: 0"
    only_a, only_b = int((a > b).sum()), int((b > a).sum())
    assert found.where is not None and (found.where.only_a, found.where.only_b) == (only_a, only_b)
    assert found.comparison.p == pytest.approx(binomtest(only_a, only_a + only_b).pvalue)
    assert found.n_left_out == 0 and not found.where.a_gains


def test_another_filters_metric_is_paired_too(store):
    (found,) = compare_models(store, GOOD, POOR, metric="exact_match,strict").tasks
    a, b = (worth(model, "birds-filters", "strict") for model in (GOOD, POOR))
    assert found.comparison.difference == pytest.approx((a.sum() - b.sum()) / 60)
    assert (found.where.only_a, found.where.only_b) == ((a > b).sum(), (b > a).sum())


def test_graded_values_are_paired_without_right_and_wrong(store):
    compared = compare_models(store, GOOD, POOR, RunFilter(tasks=("birds-count",)))
    (found,) = compared.tasks
    assert found.where is None and found.verdict == "a" and found.comparison.difference < 0
    assert "lower, which is better, than chat/lab/poor-1b" in comparison_text(compared, 200)


def test_what_cannot_be_paired_is_told(store, path, capsys):
    assert compare_models(store, GOOD, POOR).not_compared == (
        "birds-f1: f1 is a function of all documents, not a mean over them",
    )
    with pytest.raises(DataError, match="cannot be compared photo by photo on birds-f1: f1 is a"):
        compare_models(store, GOOD, POOR, RunFilter(tasks=("birds-f1",)))
    assert main(["compare", "good", "poor", "--results", str(path.parent)]) == 0
    assert "not compared: birds-f1: f1 is a function" in capsys.readouterr().err


def test_slices_show_the_mean_value_of_each_kind(store):
    table = sliced(store, read_table(store, compare=False), "label")
    shown = {(row.model, row.run.spec.task, row.score.part): row.score for row in table.rows}
    values = worth(GOOD, "birds-count")
    score = shown[GOOD, "birds-count", "B1"]
    assert score.value == pytest.approx(values[np.arange(80) % 4 == 1].mean())
    assert score.metric == "mae" and not score.higher_is_better and not score.is_fraction
    whole = shown[POOR, "birds-filters", ""]
    assert whole.value == pytest.approx(worth(POOR, "birds-filters").sum() / 60) and whole.n == 60
    assert not any(task == "birds-f1" for _, task, _ in shown)
    assert any("birds-f1" in note for note in table.notes)
    only = read_table(store, RunFilter(tasks=("birds-f1",)), compare=False)
    with pytest.raises(DataError, match="birds-f1': f1 is a function of all documents"):
        sliced(store, only, "unit")
    with pytest.raises(DataError, match="only the label and unit of its photos are stored"):
        sliced(store, table, "family", {})


def test_data_are_called_by_their_name_not_their_place():
    assert data_name({"dataset_path": "lab/birds"}) == hub_name({"dataset_path": "lab/birds"})
    saved = {"dataset_path": "/home/ann/saved", "dataset_kwargs": {"load_from_disk": True}}
    assert data_name(saved) == "saved" and hub_name(saved) == ""
    assert data_name({"dataset_path": "json"}) == hub_name({"dataset_path": "./mine"}) == ""


def test_percent_only_where_all_runs_of_a_column_say_so(tmp_path):
    with Store.open(tmp_path / "fieldmark.db") as store:
        for model in (GOOD, POOR):
            run = kit.write_run(store, model, TASKS["birds-choice"])
            if model == POOR:
                scores = next(iter(store.scores(RunFilter(models=(POOR,))).values()))
                store.rescore_run(run, [replace(each, is_fraction=False) for each in scores])
        assert not any(row.score.is_fraction for row in read_table(store).rows)


def test_warnings_of_documents_are_told_in_their_own_words(tmp_path):
    with Store.open(tmp_path / "fieldmark.db") as store:
        run = kit.write_run(store, GOOD, TASKS["birds-f1"])
        scores = store.scores()[run]
        slow = "one call takes 9 s: no interval"
        store.rescore_run(run, [replace(each, low=None, high=None, warning=slow) if each.is_primary
                                else each for each in scores])  # fmt: skip
        for text in (wide_table(read_table(store)), long_table(read_table(store))):
            assert f"‡ birds-f1: {slow}" in text.splitlines()


def test_plots_compare_what_can_be_compared(store):
    spec = json.dumps(draw("difference", read_results(store)), ensure_ascii=False)
    assert "birds-choice" in spec and "Not shown: birds-f1" in spec
    drawn = draw("difference", read_results(store, RunFilter(tasks=("birds-choice",))))
    gap = 100 * (worth(POOR, "birds-choice").mean() - worth(GOOD, "birds-choice").mean())
    assert f'"text": "−{-gap:.1f}"' in json.dumps(drawn, ensure_ascii=False)
    draw("forest", read_results(store))
    with pytest.raises(DataError, match="f1 is a function of all documents"):
        draw("difference", read_results(store, RunFilter(tasks=("birds-f1",))))
    with pytest.raises(DataError, match="texts, not labels"):
        draw("confusion", read_results(store))


def test_cards_name_no_worst_class_and_point_to_the_hub(store):
    content = {each.name: b"".join(each.chunks).decode() for each in export("card", choose(store))}
    card = content["chat_lab_good-1b.md"]
    assert "Worst classes" not in card and "huggingface.co/datasets/lab/birds" in card
    files = [each.name for each in export("eval-results", choose(store))]
    assert "chat_lab_good-1b/.eval_results/birds-choice.yaml" in files


def test_the_page_is_told_how_documents_are_judged(store):
    table = read_table(store)
    kinds = {}
    for rows in columns_of(table).values():
        data = read_column(store, rows, {})
        kinds[rows[0].run.spec.task] = data.judged
        assert not any(data.times_wrong().values())
    assert kinds == {
        "birds-choice": "right", "birds-count": "graded", "birds-f1": "texts",
        "birds-filters": "right",
    }  # fmt: skip
    summary = summarise(store, table)
    assert all(column["is_valued"] for column in summary["columns"])
    assert summary["tasks"][0]["dataset"] == "lab/birds"


def test_the_live_page_shows_documents(path):
    settings = Settings(results=path.parent)
    live = LiveResults(settings, RunFilter())
    names = [column["name"] for column in live.summary()["columns"]]
    assert len(names) == 4 and all(live.column_file(name) for name in names)
    assert live.charts_file() and live.progress()["done"] == 8


def test_long_answers_do_not_fill_the_page(tmp_path):
    from fieldmark.report.site.predictions import LONGEST, task_predictions
    from fieldmark.store import PartResult

    with Store.open(tmp_path / "fieldmark.db") as store:
        made = TASKS["birds-choice"]
        run = kit.write_run(store, GOOD, made)
        given = kit.answered(made, {"none": kit.worth(GOOD, made, "none")})
        wordy = replace(given, predictions=[f"{n} " * 9000 for n in range(made.n)])
        part = store.finished_parts(run)[0]
        store.write_part(run, PartResult(wordy, info=part.info))
        name = next(iter(columns_of(read_table(store))))
        packed = gzip.decompress(task_predictions(store, name))
        header = json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])
        assert max(map(len, header["labels"])) == LONGEST + 1 and len(header["labels"]) == 124


def test_rescoring_keeps_what_the_tasks_code_made(tmp_path, capsys):
    path = kit.make_document_results(tmp_path / "results" / "fieldmark.db")

    def values() -> dict[tuple[str, str, str], float]:
        with Store.open(path, read_only=True) as store:
            specs = {run.id: run.spec for run in store.runs()}
            return {
                (specs[run].model, specs[run].task, score.metric): score.value
                for run, scores in store.scores().items()
                for score in scores
            }

    before = values()
    assert main(["rescore", "--metric", "macro_f1", "--results", str(path.parent)]) == 0
    said = capsys.readouterr()
    assert "2 runs left as scored: their tasks have their own scoring code." in said.err
    assert "6 runs scored" in said.out
    after = values()
    expected = {
        name: 0.9 * value if "exact_match" in name[2] and name[1] == "birds-filters" else value
        for name, value in before.items()  # 6 of 60 documents failed: now they count 0
    }
    assert {name: after[name] for name in before} == pytest.approx(expected)
    assert not any("macro" in metric for _, _, metric in after)
    with Store.open(path, read_only=True) as store:
        assert read_table(store).rows[0].tier == "A"


def test_values_are_read_by_filter(store):
    run = store.runs(RunFilter(models=(GOOD,), tasks=("birds-filters",)))[0]
    found = item_values(store, run, "exact_match,strict")
    assert (
        len(found) == 54
        and found["", 0, "6"] == kit.worth(GOOD, TASKS["birds-filters"], "strict")[6]
    )
    assert split_name("a,b,strict", ["none", "strict"]) == ("a,b", "strict")


@pytest.mark.parametrize("flags", [[], ["--long"], ["--by-part"], ["--by", "unit"], ["--json"]])
def test_every_form_of_the_table_prints(path, capsys, flags):
    assert main(["table", "--results", str(path.parent), *flags]) == 0
    assert "birds-choice" in capsys.readouterr().out

"""Do table, comparison, page, plots, exports and rescoring agree on a run with refusals?

Every number here comes from real answers of the mock, over HTTP, and is read where users read it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.stats import binomtest

from fieldmark.cli import main
from fieldmark.models import chat
from fieldmark.report import compare_models, comparison_text, read_table, wide_table
from fieldmark.report.compare.pairs import AllPairs
from fieldmark.report.plots import draw, read_results
from fieldmark.report.site.summary import build_summary
from fieldmark.settings import Settings
from fieldmark.store import RunFilter, Score, Store
from kit.ask import ask, wholes

COWARD = "chat/mock/coward?skill=0.97&p_refuse=0.7"
HONEST = "chat/mock/honest?skill=0.8"
TASK = "world-species"
N_TEST = 80


@pytest.fixture
def settings(fresh_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(chat, "stand_in", lambda name: "")  # these mocks play models that compete
    for model in (COWARD, HONEST):
        ask(fresh_settings, model, TASK, n_test=N_TEST)
    return fresh_settings


def rows_of(settings: Settings, model: str) -> pl.DataFrame:
    with Store.open(settings.store, read_only=True) as store:
        (run,) = store.runs(RunFilter(models=(model,)))
        return store.predictions(run.id)


def right(rows: pl.DataFrame) -> pl.Series:
    return rows["prediction"].eq_missing(rows["target"])


@pytest.mark.slow
def test_who_refuses_is_not_the_best(settings: Settings) -> None:
    """Defect: 95.8 % of the 24 it answered put it before 80.2 % of all 96."""
    coward, honest = (rows_of(settings, model) for model in (COWARD, HONEST))
    answered = coward.filter(pl.col("outcome") == "ok")
    assert right(answered).mean() > right(honest).mean(), "right of what it answers"
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(store)
    text = wide_table(table, 200)
    assert text.startswith(f"Best: {HONEST}. Clearly worse: ")
    lines = text.splitlines()
    order = [line.split()[0] for line in lines if line.startswith("chat/mock/")]
    assert order == [HONEST, COWARD]
    n_refused = len(coward) - len(answered)
    among = f"{100 * right(answered).mean():.1f}"
    told = f"  {COWARD}, {TASK} synthetic: {n_refused} of {len(coward)} refused; "
    told += f"{among} among those answered"
    told += ": `--again refused` asks again"
    assert told in lines and "† Missing answers count as wrong:" in lines


def test_all_of_it_agrees(settings: Settings, tmp_path: Path) -> None:
    coward, honest = (rows_of(settings, model) for model in (COWARD, HONEST))
    expected = {COWARD: float(right(coward).mean()), HONEST: float(right(honest).mean())}
    only = [int((right(a) & ~right(b)).sum()) for a, b in ((coward, honest), (honest, coward))]
    with Store.open(settings.store, read_only=True) as store:
        table = read_table(store)
        shown = {row.model: row.score for row in table.rows}
        assert {name: score.value for name, score in shown.items()} == pytest.approx(expected)
        assert {score.n for score in shown.values()} == {len(coward)}
        (task,) = compare_models(store, COWARD, HONEST).tasks
        assert task.comparison.difference == pytest.approx(expected[COWARD] - expected[HONEST])
        assert task.comparison.n == len(coward) and task.n_left_out == 0
        assert (task.where.only_a, task.where.only_b) == tuple(only)
        pair = AllPairs(store, table.rows).compare(COWARD, HONEST).tasks[0].comparison
        assert (pair.p, pair.low, pair.high) == pytest.approx(
            (task.comparison.p, task.comparison.low, task.comparison.high)
        )
        if "McNemar" in task.comparison.method:
            assert task.comparison.p == pytest.approx(binomtest(only[0], sum(only)).pvalue)
        drawn = draw("forest", read_results(store))
        summary = build_summary(store)
    points = {value["model"]: value["score"] for value in drawn["data"]["values"]}
    assert points == pytest.approx({name: 100 * value for name, value in expected.items()}, 1e-5)
    names = [row["name"] for row in summary["rows"]]
    cells = {names[cell[0]]: cell for cell in summary["cells"]}
    assert {name: cell[2] for name, cell in cells.items()} == pytest.approx(expected, 1e-5)
    assert "refused" in cells[COWARD][8] and cells[HONEST][8] == ""
    items = exported_items(settings, tmp_path)
    assert items == pytest.approx(expected)


def exported_items(settings: Settings, tmp_path: Path) -> dict[str, float]:
    """Share of items that an export calls right."""
    shares = {}
    for name, model in (("coward", COWARD), ("honest", HONEST)):
        out = tmp_path / f"{name}.parquet"
        flags = ["parquet", "--predictions", "--model", model]
        flags += ["--results", str(settings.results), "--out", str(out)]
        assert main(["export", *flags]) == 0
        shares[model] = float(right(pl.read_parquet(out)).mean())
    return shares


@pytest.mark.slow
def test_slices_and_json_agree_with_the_score(settings: Settings, capsys: Any) -> None:
    coward = rows_of(settings, COWARD)
    command = ["table", "--json", "--results", str(settings.results)]
    assert main(command) == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["model"] == COWARD)
    n_refused = int((coward["outcome"] == "refused").sum())
    assert row["value"] == pytest.approx(right(coward).mean())
    assert row["answered_rate"] == pytest.approx(1 - n_refused / len(coward))
    assert row["n_refused"] == n_refused and row["n_failed"] == 0
    assert row["among_answered"] == pytest.approx(right(coward).sum() / (len(coward) - n_refused))
    assert (row["chance"], row["chance_among"]) == (1 / 8, "8 options")
    assert main([*command, "--by", "label"]) == 0
    slices = [row for row in json.loads(capsys.readouterr().out) if row["model"] == COWARD]
    assert slices[0]["value"] == pytest.approx(row["value"]) and slices[0]["n"] == len(coward)
    n_right = sum(one["value"] * one["n"] for one in slices[1:])
    assert n_right == pytest.approx(right(coward).sum())


@pytest.mark.slow
def test_rescoring_renews_all_scores(settings: Settings, capsys: Any) -> None:
    with Store.open(settings.store) as store:
        (run,) = store.runs(RunFilter(models=(COWARD,)))
        new = store.scores()[run.id]
        old = [Score("accuracy", 0.99, n=3, is_primary=True)]
        store.rescore_run(run.id, old)
    assert main(["rescore", "--results", str(settings.results)]) == 0
    capsys.readouterr()
    with Store.open(settings.store, read_only=True) as store:
        renewed = wholes(store.scores()[run.id])
    known = wholes(new)
    assert renewed == {name: known[name] for name in renewed}
    assert {"accuracy", "among_answered", "answered_rate"} <= set(renewed)


def test_a_model_that_answers_little_is_never_recommended_without_a_word(
    settings: Settings,
) -> None:
    """Even where it is the best of all items."""
    ask(settings, "chat/mock/poor?skill=0.02", TASK, n_test=N_TEST)
    models = (COWARD, "chat/mock/poor?skill=0.02")
    word = f"{COWARD} (answered "
    with Store.open(settings.store, read_only=True) as store:
        where = RunFilter(models=models)
        text = wide_table(read_table(store, where), 300)
        assert word in text.splitlines()[0] and "% of the questions)" in text.splitlines()[0]
        told = comparison_text(compare_models(store, *models), 400).splitlines()[0]
        assert word in told
        summary = build_summary(store, where)
        assert word in summary["verdict"] and word in summary["columns"][0]["verdict"]
        forest = draw("forest", read_results(store, where))
    assert any("answered" in line for line in forest["title"]["subtitle"])

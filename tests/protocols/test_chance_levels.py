"""Is what guessing scores told wherever models that choose among few options meet others?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmark.data import load_dataset
from fieldmark.errors import DataError
from fieldmark.experiments import evaluate
from fieldmark.models import chat
from fieldmark.report import compare_models, long_table, read_table, verdict, wide_table
from fieldmark.report.chance import by_position, chance_level, position_words
from fieldmark.report.plots import draw, read_results
from fieldmark.settings import Settings
from fieldmark.store import Run, RunFilter, Store
from fieldmark.tasks import load_own_task
from kit.made import make_dataset

WREN = "chat/mock/wren?skill=0.7"
COLOUR = "classical/colour"
N_TEST = 40


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough for two photos of one individual."""
    folder = tmp_path_factory.mktemp("world")
    make_dataset("world", folder, 300)
    return folder


def run(settings: Settings, model: str, task: str, **axes: Any) -> None:
    evaluate(model, task, settings=settings, **axes)


def only_run(store: Store, **where: Any) -> Run:
    (found,) = store.runs(RunFilter(**where))
    return found


def n_species(settings: Settings) -> int:
    task = load_own_task("world-species")
    table = load_dataset("world").table(settings.root_of("world"), **task.options)
    return table[task.label].drop_nulls().n_unique()


@pytest.mark.slow
def test_options_shown_and_classes_known(fresh_settings: Settings) -> None:
    for model in (WREN, COLOUR):
        run(fresh_settings, model, "world-species", n_test=N_TEST)
    run(fresh_settings, WREN, "world-individuals")
    run(fresh_settings, "chat/mock/owl?skill=0.7", "world-stage", circular=True)
    with Store.open(fresh_settings.store, read_only=True) as store:
        asked = only_run(store, models=(WREN,), tasks=("world-species",))
        level = chance_level(store, asked, "accuracy")
        assert (level.value, level.among) == (1 / 8, "8 options")
        assert chance_level(store, asked, "macro_accuracy").value == pytest.approx(1 / 8)
        assert chance_level(store, asked, "macro_f1") is None, "not known by a formula"
        probe = chance_level(store, only_run(store, models=(COLOUR,)), "accuracy")
        n = n_species(fresh_settings)
        assert (probe.value, probe.among) == (pytest.approx(1 / n), f"{n} classes")
        pairs = only_run(store, tasks=("world-individuals",))
        assert chance_level(store, pairs, "accuracy").value == 1 / 2
        turned = chance_level(store, only_run(store, tasks=("world-stage",)), "accuracy")
        assert (turned.value, turned.among) == (1 / 4, "2 options, right in all rotations")


@pytest.mark.slow
def test_few_options_and_all_classes_never_meet_without_a_word(
    fresh_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "stand_in", lambda name: "")  # the mock plays a model that competes
    for model, sizes in ((WREN, (0, 3)), (COLOUR, (24, 48))):
        for n_train in sizes:
            run(fresh_settings, model, "world-species", n_train=n_train, n_test=N_TEST)
    options, classes = "8 options", f"{n_species(fresh_settings)} classes"
    with Store.open(fresh_settings.store, read_only=True) as store:
        table = read_table(store)
        text = " ".join(wide_table(table, 300).split())
        assert f"world-species synthetic options=8: guessing scores 12.5 ({options})" in text
        assert f"world-species synthetic: guessing scores 4.2 ({classes})" in text
        with pytest.raises(DataError, match="`--ask choices=0` offers all classes"):
            compare_models(store, f"{WREN} (ask)", f"{COLOUR} (probe, n_train=24)")
        drawn = draw("curve", read_results(store))
        assert any("easier question" in line for line in drawn["title"]["subtitle"])
        words = json.dumps(drawn, ensure_ascii=False)
        assert f"{options}: chance 12.5 %" in words and f"{classes}: chance " in words


def test_few_options_all_classes_and_pairs_are_columns_of_their_own(
    fresh_settings: Settings,
) -> None:
    for model in (WREN, COLOUR, "classical/texture"):
        for task in ("world-species", "world-individuals", "world-stage"):
            run(fresh_settings, model, task)
    with Store.open(fresh_settings.store, read_only=True) as store:
        table = read_table(store)
    columns = {row.column for row in table.rows if row.model == WREN}
    assert columns == {
        "world-species\nsynthetic\noptions=8",  # of 24
        "world-individuals\nsynthetic\noptions=2",  # one individual or two
        "world-stage\nsynthetic",  # both labels, as for a probe
    }
    apart = [row for row in table.rows if "options" in row.column]
    assert not any(row.tier or row.is_counted for row in apart), "the task counts once"
    assert WREN not in verdict(table)


def test_the_share_right_by_position(fresh_settings: Settings) -> None:
    run(fresh_settings, WREN, "world-species", n_test=N_TEST)
    with Store.open(fresh_settings.store, read_only=True) as store:
        asked = only_run(store)
        places = by_position(store, asked)
        rows = store.predictions(asked.id)
        text = long_table(read_table(store, by_run=True), 200)
    expected = np.zeros((8, 2), int)
    for target, said, info in rows.select("target", "prediction", "info").iter_rows():
        options = json.loads(info)["options"]
        expected[options.index(target)] += (1, said == target)
    assert places == [tuple(row) for row in expected.tolist()][: len(places)]
    assert sum(n for n, _ in places) == N_TEST == len(rows)
    assert "guessing scores 12.5 (8 options)" in text
    assert position_words([(3, 3), (0, 0)]) == "A 100 · B – (n=0 to 3 each)"


def test_a_fixed_order_tells_nothing_of_positions(fresh_settings: Settings) -> None:
    """Yes always stands before no: its position is its label."""
    run(fresh_settings, WREN, "world-individuals")
    with Store.open(fresh_settings.store, read_only=True) as store:
        assert by_position(store, only_run(store)) == []

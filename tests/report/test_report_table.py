"""The text of tables, letter by letter, and what programs read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

from fieldmark.errors import UnknownName
from fieldmark.report import long_table, part_table, plain_rows, read_table, wide_table
from fieldmark.report.chance import ChanceLevel
from fieldmark.report.facts import signature
from fieldmark.report.rows import Table
from fieldmark.report.table.ranking import rank_rows
from fieldmark.report.table.text import chance_texts
from fieldmark.store import RunFilter, RunSpec, Score, Store

APP = version("fieldmark")
BELUGA = (
    "task=beluga version=1 data=77aa protocol=probe/neighbours settings=0d67c20e n_train=all "
    f"seed=0 app={APP}"
)
SPECIES = (
    "task=world-species data=0a1b protocol=probe/ridge settings=a6d7a35f n_train=all "
    f"seed=0 app={APP}"
)


def right(n: int, n_right: int, shift: int = 0) -> np.ndarray:
    return np.roll(np.arange(n) < n_right, shift)


CHANCE = (
    "beluga: guessing scores 50.0 (2 classes). world-species: guessing scores 50.0 (2 classes)."
)
LEGEND = (
    "A: could be the best model for this task · B: clearly worse than A; may be the best of the "
    "rest; and so on (95 % confidence)"
)


def plain(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.split())


def test_wide_table(store):
    text = wide_table(read_table(store), width=120)
    assert text.startswith(
        "Best overall (2 tasks): open-clip/hf-hub:imageomics/bioclip-2. Clearly worse: "
        "timm/vit_base_patch16_224 and\n"
        "classical/chance. classical/colour is left out: it lacks some of these tasks.\n"
        "\n"
        "                                                     rank\n"
        "                                                   (these                beluga         "
        "world-species\n"
        "model                                      mean ↑  tasks)   "
        "         accuracy ↑            "
        "accuracy ↑\n"
        "open-clip/hf-hub:imageomics/bioclip-2  77.0 ± 3.5       1  "
        "80.0 ± 5.5 (n=200) A  74.0 ± 4.2 "
        "(n=412) A\n"
        "timm/vit_base_patch16_224              71.9 ± 3.8       2  "
        "71.0 ± 6.2 (n=200) B  72.8 ± 4.3 "
        "(n=412) A\n"
        "classical/chance                       29.8 ± 3.9       3  "
        "45.0 ± 6.8 (n=200) C  14.6 ± 3.4 "
        "(n=412) C\n"
        "classical/colour                                –       –   "
        "  –                  65.5 ± 4.6 "
        "(n=412) B\n"
        "\n"
        "↑ higher is better"
    )
    assert (
        "↑ higher is better · ± margin of error (95 %) for these test photos · n test photos "
        f"· – not run · {LEGEND} · rank (these tasks): 95 % interval of "
        f"the rank by the mean {CHANCE}"
    ) in plain(text)


def test_wide_table_at_80_columns_goes_on_below(store):
    text = wide_table(read_table(store))
    assert (
        "                                                     rank\n"
        "                                                   (these                beluga\n"
        "model                                      mean ↑  tasks)            accuracy ↑\n"
        "open-clip/hf-hub:imageomics/bioclip-2  77.0 ± 3.5       1  80.0 ± 5.5 (n=200) A\n"
        "timm/vit_base_patch16_224              71.9 ± 3.8       2  71.0 ± 6.2 (n=200) B\n"
        "classical/chance                       29.8 ± 3.9       3  45.0 ± 6.8 (n=200) C\n"
        "\n"
        "                                              world-species\n"
        "model                                            accuracy ↑\n"
        "open-clip/hf-hub:imageomics/bioclip-2  74.0 ± 4.2 (n=412) A\n"
        "timm/vit_base_patch16_224              72.8 ± 4.3 (n=412) A\n"
    ) in text
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("task="))


def test_a_summary_that_fills_the_screen_stands_alone(store):
    text = wide_table(read_table(store), width=60)
    assert "\nmodel                                      mean ↑  tasks)\n" in text


def test_a_narrow_screen_still_shows_every_number(store):
    wide, narrow = (wide_table(read_table(store), width) for width in (200, 10))
    for cell in (
        "80.0 ± 5.5 (n=200) A",
        "65.5 ± 4.6 (n=412)",
        "open-clip/hf-hub:imageomics/bioclip-2",
    ):
        assert cell in wide and cell in narrow


def test_long_table(store):
    where = RunFilter(tasks=("world-*",))
    text = long_table(read_table(store, where, by_run=True))
    assert text.startswith(
        "Too close to call: open-clip/hf-hub:imageomics/bioclip-2 scored highest, but\n"
        "timm/vit_base_patch16_224 could be as good.\n"
        "\n"
        "all: protocol=probe/ridge  n_train=all  n_test=all  seed=0  repeats=1\n"
        "metric=accuracy ↑  answered=100.0 %\n"
        "model                                  task           score  interval        n  units\n"
        "classical/chance                       world-species   14.6  [11.5, 18.3]  412    412  C\n"
        "classical/colour                       world-species   65.5  [60.8, 70.0]  412    412  B\n"
        "open-clip/hf-hub:imageomics/bioclip-2  world-species   74.0  [69.6, 78.0]  412    412  A\n"
        "timm/vit_base_patch16_224              world-species   72.8  [68.3, 76.9]  412    412  A\n"
        "\n"
    )
    assert plain(text).endswith(
        "↑ higher is better · intervals of 95 % for these test photos · n test photos · "
        f"{LEGEND} world-species: guessing scores 50.0 (2 classes). {SPECIES}"
    )


def test_part_table(tmp_path, filled):
    spec = RunSpec("a", "newt", "probe/svm", {"score": "pooled"}, n_train=10)
    with Store.open(tmp_path / "parts.db") as store:
        filled(store, spec, {"age: fox": right(20, 15), "count": right(30, 10)})
        filled(store, replace(spec, model="b"), {"age: fox": right(20, 20), "count": right(30, 20)})
        text = part_table(read_table(store, by_part=True))
    assert text == (
        "newt  accuracy ↑\n"
        "part                                       b                   a\n"
        "(the whole task)   80.0 ± 10.9        (n=50)  50.0 ± 13.4 (n=50)\n"
        "age: fox          100.0 [83.9, 100.0] (n=20)  75.0 ± 17.8 (n=20)\n"
        "count              66.7 ± 16.0        (n=30)  33.3 ± 16.0 (n=30)\n"
        "\n"
        "↑ higher is better · ± margin of error (95 %) for these test photos · [low,\n"
        "high] the same interval, where ± would leave 0–100 · n test photos\n"
        "The margin of 2 scores leaves out differences between training samples; add\n"
        "  --repeats 5 to include them."
    )


def test_unanswered_items_stand_beside_the_score(tmp_path, filled):
    with Store.open(tmp_path / "lost.db") as store:
        filled(store, RunSpec("chat/x", "beluga", "ask"), {"": right(100, 60)}, n_lost=5)
        filled(store, RunSpec("chat/y", "beluga", "ask"), {"": right(100, 55)})
        text = wide_table(read_table(store))
    assert text == (
        "Too close to call: chat/x scored highest, but chat/y could be as good.\n"
        "\n"
        "                       beluga\n"
        "model              accuracy ↑\n"
        "chat/x  57.9 ± 9.7 (n=95)  A†\n"
        "chat/y  55.0 ± 9.6 (n=100) A\n"
        "\n"
        "↑ higher is better · ± margin of error (95 %) for these test photos · n test\n"
        "photos · A: could be the best model for this task · B: clearly worse than A; may\n"
        "be the best of the rest (95 % confidence)\n"
        "beluga: guessing scores 50.0 (2 classes).\n"
        "† Missing answers count as wrong:\n"
        "  chat/x, beluga: 2 of 100 failed, 3 not read: run the same command again,\n"
        "    `--again unparsed` asks those too"
    )


def test_runs_that_are_not_done_are_named(store):
    failed = store.begin_run(RunSpec("timm/new", "beluga", "probe/neighbours"))
    store.fail_run(failed, "boom")
    store.begin_run(RunSpec("timm/newer", "beluga", "probe/neighbours"))
    told = plain(wide_table(read_table(store)))
    assert "1 run failed and is not shown: timm/new on beluga. Run the same command" in told
    assert "1 run did not finish and is not shown: timm/newer on beluga." in told
    assert "`fieldmark runs rm --failed` removes it." in told


def test_an_empty_store_gives_an_empty_table(tmp_path):
    with Store.open(tmp_path / "none.db", read_only=True) as store:
        table = read_table(store, RunFilter(models=("anything",)))
    assert (wide_table(table), long_table(table), part_table(table)) == ("", "", "")
    assert plain_rows(table) == []


def test_plain_rows_are_json(store):
    rows = plain_rows(read_table(store, RunFilter(models=("timm/*",), tasks=("beluga",))))
    (row,) = json.loads(json.dumps(rows))
    assert row["model"] == "timm/vit_base_patch16_224" and row["metric"] == "accuracy"
    assert row["value"] == 0.71 and row["low"] < 0.71 < row["high"]
    assert (row["n"], row["n_items"], row["n_answered"], row["n_train"]) == (200, 200, 200, None)
    assert row["is_tied_with_best"] is None, "alone in its column: nothing to compare with"
    assert len(row["key"]) == 32 and row["app"] == APP


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (
            RunFilter(models=("timm/vit_base_patch16_242",)),
            "No model in these results is called 'timm/vit_base_patch16_242'. Did you mean "
            "'timm/vit_base_patch16_224'? `fieldmark table` lists all.",
        ),
        (
            RunFilter(tasks=("belgua",)),
            "No task in these results is called 'belgua'. Did you mean 'beluga'? `fieldmark table` "
            "lists all.",
        ),
    ],
)
def test_a_name_nobody_ran_is_told(store, where, text):
    with pytest.raises(UnknownName) as caught:
        read_table(store, where)
    assert str(caught.value) == text


def test_a_metric_nobody_scored_is_told(store):
    with pytest.raises(
        UnknownName, match="No metric of these runs is called 'acuracy'. Did you mean"
    ):
        read_table(store, metric="acuracy")


def test_another_metric_can_be_shown(store):
    run = store.runs(RunFilter(models=("classical/colour",)))[0]
    first = store.scores()[run.id]
    store.rescore_run(run.id, [*first, Score("macro_f1", 0.25, low=0.2, high=0.3, n=412)])
    (row,) = read_table(store, metric="macro_f1").rows
    assert (row.model, row.score.value) == ("classical/colour", 0.25)


def test_two_versions_of_a_model_have_two_rows(tmp_path, filled):
    spec = RunSpec("my.py:Net", "beluga", "probe/svm", model_version="aaaaaaaabbbb")
    with Store.open(tmp_path / "versions.db") as store:
        filled(store, spec, {"": right(100, 50)})
        filled(store, replace(spec, model_version="cccccccc"), {"": right(100, 60)})
        models = [row.model for row in read_table(store).rows]
    assert sorted(models) == ["my.py:Net#aaaa", "my.py:Net#cccc"]


def test_a_task_of_another_direction_is_in_no_mean(tmp_path):
    with Store.open(tmp_path / "mixed.db") as store:
        for model, accuracy, error in (("a", 0.9, 3.0), ("b", 0.8, 1.5), ("c", 0.7, math.nan)):
            for task in ("t1", "t3"):
                run = store.begin_run(RunSpec(model, task, "p"))
                metric = "accuracy" if task == "t1" else "macro_f1"
                store.finish_run(run, [Score(metric, accuracy, is_primary=True, n=10)])
            run = store.begin_run(RunSpec(model, "t2", "p"))
            years = Score(
                "error_years", error, "", error - 0.5, error + 0.5, n=10, is_primary=True,
                higher_is_better=False, is_fraction=False,
            )  # fmt: skip
            store.finish_run(run, [years])
        text = wide_table(read_table(store, compare=False), 100)
    assert text.splitlines()[0:6] == [
        "          mean of",
        "        accuracy,           t1                      t2           t3",
        "model  macro_f1 ↑   accuracy ↑           error_years ↓   macro_f1 ↑",
        "a            90.0  90.0 (n=10)          3 ± 0.5 (n=10)  90.0 (n=10)",
        "b            80.0  80.0 (n=10)        1.5 ± 0.5 (n=10)  80.0 (n=10)",
        "c            70.0  70.0 (n=10)  undefined       (n=10)  70.0 (n=10)",
    ]
    assert "Not in the mean, as their unit or direction differs: t2 (error_years)." in text


def test_the_signature_names_what_was_asked():
    spec = RunSpec(
        "m", "beluga", "probe/svm", {}, 10, 50, 3, 5, "closed", "2", "ab12", model_version="x"
    )
    assert signature(spec) == (
        "task=beluga@closed version=2 data=ab12 protocol=probe/svm settings=b16809a7 n_train=10 "
        "n_test=50 seed=3 repeats=5"
    )
    assert signature(replace(spec, model="other", model_version="")) == signature(spec)
    assert signature(replace(spec, settings={"k": 1})) != signature(spec)


def test_without_a_model_on_all_tasks_there_is_no_mean(tmp_path):
    """No block of headings without rows, no sign that stands nowhere."""
    with Store.open(tmp_path / "apart.db") as store:
        for model, task in (("a", "t1"), ("b", "t2")):
            run = store.begin_run(RunSpec(model, task, "p"))
            store.finish_run(run, [Score("accuracy", 0.5, is_primary=True, n=10)])
        text = wide_table(read_table(store), 20)
        wide = wide_table(read_table(store), 80)
    assert "mean" not in text and "not run" not in text
    assert "mean" not in wide and "– not run" in wide


def test_numbers_in_names_are_sorted_as_numbers(store):
    row = read_table(store).rows[0]
    rows = [replace(row, setup=f"ask, n_train={n}") for n in (10, 3, 0)]
    names = rank_rows(Table(tuple(rows))).names
    assert [name.rpartition("=")[2] for name in names] == ["0)", "3)", "10)"]


def test_equal_levels_of_guessing_are_told_once(store):
    row = read_table(store).rows[0]
    rows = [replace(row, chance=ChanceLevel(0.5, among)) for among in ("2 options", "2 classes")]
    assert chance_texts(rows) == ["50.0"] and chance_texts(rows[:1]) == ["50.0 (2 options)"]

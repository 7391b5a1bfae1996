"""Groups of tasks: worked out from their members, shown beside them, never counted twice."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fieldmark.cli import main
from fieldmark.lmms.report import METHOD, average
from fieldmark.report import plain_rows, plain_standings, read_table, wide_table, with_groups
from fieldmark.store import Score, Store
from kit import document_results as kit
from kit.document_results import GOOD, POOR, TASKS

CHOICE, FILTERS, COUNT = (TASKS[f"birds-{each}"] for each in ("choice", "filters", "count"))


def written(folder: Path, *made: kit.Made, models=(GOOD, POOR), **spec) -> Path:
    path = folder / "results" / "fieldmark.db"
    with Store.open(path) as store:
        for model in models:
            for each in made:
                kit.write_run(store, model, each, **spec)
    return path


def grouped(path: Path, metric: str = ""):
    with Store.open(path, read_only=True) as store:
        return with_groups(store, read_table(store, metric=metric), metric)


def rows_of(table) -> dict[tuple[str, str, str], Score]:
    return {
        (row.model, row.column, row.score.metric): row.score
        for row in table.rows
        if not row.is_stored
    }


def own(model: str, made: kit.Made) -> Score:
    return kit.scores(made, {each: kit.worth(model, made, each) for each in made.pipelines})[0]


def test_each_task_counts_the_same_unless_sizes_are_to_count(tmp_path):
    sized = kit.group("sized", "exact_match", weight_by_size=True)
    both = [*CHOICE.groups, sized]
    table = grouped(written(tmp_path, replace(CHOICE, groups=both), replace(FILTERS, groups=both)))
    found = rows_of(table)
    choice, filters = own(GOOD, CHOICE), own(GOOD, FILTERS)
    plain, weighted = found[GOOD, "birds", "exact_match"], found[GOOD, "sized", "exact_match"]
    assert plain.value == pytest.approx((choice.value + filters.value) / 2)
    assert weighted.value == pytest.approx((120 * choice.value + 54 * filters.value) / 174)
    assert plain.n == weighted.n == 174 and plain.method == METHOD
    assert found[POOR, "birds", "exact_match"].value < plain.value
    assert "birds: mean over birds-choice, birds-filters" in table.notes


def test_the_interval_covers_the_truth_as_often_as_it_claims():
    """Two members of unlike size, drawn anew: nineteen in twenty intervals hold the mean."""
    random, truth, hits = np.random.default_rng(0), (0.9 + 0.6) / 2, 0
    for _ in range(400):
        members = []
        for n, p in ((120, 0.9), (60, 0.6)):
            from fieldmark.stats import wilson

            k = int(random.binomial(n, p))
            limits = wilson(k, n)
            members.append(Score("acc", k / n, low=limits.low, high=limits.high, n=n))
        found = average(members, by_size=False)
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_equal_symmetric_members_give_the_textbook_error():
    member = Score("mae", 2.0, low=1.0, high=3.0, n=10, is_fraction=False)
    found = average([member, replace(member, value=4.0, low=3.0, high=5.0)], by_size=False)
    assert (found.value, found.high - found.value) == (3.0, pytest.approx(1 / math.sqrt(2)))
    assert average([member, replace(member, low=None)], by_size=False).low is None


def test_a_group_that_is_not_complete_is_told(tmp_path):
    path = written(tmp_path, CHOICE)
    table = grouped(path)
    assert rows_of(table) == {}
    assert f"group 'birds' of {GOOD}: birds-filters not among these results" in table.notes


def test_a_member_that_ran_before_its_group_is_one(tmp_path):
    found = rows_of(grouped(written(tmp_path, replace(CHOICE, groups=()), FILTERS)))
    assert {model for model, _, _ in found} == {GOOD, POOR}


def test_other_ways_of_asking_are_other_groups(tmp_path):
    path = written(tmp_path, CHOICE, FILTERS)
    written(tmp_path, CHOICE, FILTERS, models=(GOOD,), n_test=50)
    rows = [row for row in grouped(path).rows if row.column == "birds"]
    assert sorted((row.model, row.setup.partition(", ")[2]) for row in rows) == [
        (GOOD, ""),
        (GOOD, "n_test=50"),
        (POOR, ""),
    ]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"aggregation": "!function utils.mean"}, "is averaged by a function"),
        ({"filter_list": ["strict"]}, "birds-choice has no metric of that very name"),
    ],
)
def test_what_cannot_be_averaged_is_told(tmp_path, more, line):
    odd = [kit.group("odd", "exact_match", **more)]
    table = grouped(written(tmp_path, replace(CHOICE, groups=odd), replace(FILTERS, groups=odd)))
    assert rows_of(table) == {} and any(line in note for note in table.notes)


def test_directions_that_differ_are_not_averaged(tmp_path):
    odd = [kit.group("odd", "exact_match", ["birds-choice", "birds-count"])]
    table = grouped(written(tmp_path, replace(CHOICE, groups=odd),
                            replace(COUNT, metric="exact_match", groups=odd)))  # fmt: skip
    assert any("more is better for some members" in note for note in table.notes)


def test_groups_do_not_count_in_means_and_ranks(tmp_path):
    path = written(tmp_path, CHOICE, FILTERS)
    with Store.open(path, read_only=True) as store:
        alone = read_table(store)
    table = grouped(path)
    mean = 100 * (own(GOOD, CHOICE).value + own(GOOD, FILTERS).value) / 2
    line = next(each for each in wide_table(table, 200).splitlines() if each.startswith(GOOD))
    assert f"{mean:.1f}" in line and "birds" in wide_table(table, 200)
    assert plain_standings(table) == plain_standings(alone)
    mine = [row for row in plain_rows(table) if row["task"] == "birds"]
    assert len(mine) == 2 and all(row["run"] is None and row["key"] is None for row in mine)


def test_the_command_shows_groups_unless_tasks_are_chosen(tmp_path, capsys):
    folder = str(written(tmp_path, CHOICE, FILTERS).parent)
    assert main(["table", "--results", folder, "--json"]) == 0
    assert {row["task"] for row in json.loads(capsys.readouterr().out)} == {*kit.MEMBERS, "birds"}
    assert main(["table", "--results", folder, "--json", "--task", "birds-choice"]) == 0
    assert {row["task"] for row in json.loads(capsys.readouterr().out)} == {"birds-choice"}
    assert main(["table", "--results", folder, "--metric", "exact_match,strict"]) == 0
    assert "mean over" not in capsys.readouterr().out

"""Is the share right told for each class, unit or column, with the whole beside it?"""

from __future__ import annotations

import pytest

from fieldmark.errors import DataError
from fieldmark.report import part_table, read_table, sliced
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "results.db") as opened:
        run = opened.begin_run(RunSpec("m/a", "foxes", "probe/x"))
        given = Predictions(
            ["1", "2", "3", "4", "5"],
            ["fox", "fox", "hare", "hare", "hare"],
            ["fox", "hare", "hare", "hare", None],
            units=["u", "u", "v", None, None],
            outcomes=["ok", "ok", "ok", "ok", "failed"],
        )
        opened.write_part(run, PartResult(given))
        opened.finish_run(run, [Score("macro_f1", 0.7, n=4, is_primary=True)])
        yield opened


def shares(table) -> dict[str, tuple[float, int]]:
    return {row.score.part: (row.score.value, row.score.n) for row in table.rows}


def test_by_class(store):
    found = sliced(store, read_table(store, compare=False), "label")
    assert shares(found) == {"": (0.6, 5), "fox": (0.5, 2), "hare": (2 / 3, 3)}
    whole, fox, hare = (row.score for row in found.rows)
    assert whole.low <= whole.value <= whole.high and hare.low < hare.high
    assert fox.low is None and fox.warning == "fewer than two independent units"
    text = part_table(found, heading="label")
    assert "label" in text and "fox" in text and "(the whole task)" in text


def test_items_without_a_unit_stand_together(store):
    found = sliced(store, read_table(store, compare=False), "unit")
    assert shares(found) == {"": (0.6, 5), "(none)": (0.5, 2), "u": (0.5, 2), "v": (1.0, 1)}


def test_by_a_column_of_the_data(store):
    values = {"foxes": {"1": "night", "2": "night", "3": "day"}}
    found = sliced(store, read_table(store, compare=False), "light", values)
    assert shares(found) == {"": (2 / 3, 3), "day": (1.0, 1), "night": (0.5, 2)}


def test_data_of_other_items_are_told(store):
    with pytest.raises(DataError, match="none of its photos has a 'light' in the data here"):
        sliced(store, read_table(store, compare=False), "light", {"foxes": {"9": "day"}})

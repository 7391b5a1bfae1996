"""Straight columns: wide characters, several heading lines, and nothing cut."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fieldmark.report.table.layout import align, text_width


def test_numbers_stand_right_and_names_left():
    lines = align(["model", "n"], [["a", "5"], ["longer name", "1,234"]], right=["n"])
    assert lines == [
        "model            n",
        "a                5",
        "longer name  1,234",
    ]


def test_wide_and_combining_characters_keep_columns_straight():
    body = [["狐 (fox)", "1"], ["e\u0301toile", "2"], ["🐦", "3"], ["plain", "4"]]
    lines = align(["name", "n"], body)
    assert [text_width(line.rpartition("  ")[0]) for line in lines[1:]] == [8, 8, 8, 8]
    assert lines[1] == "狐 (fox)  1"


def test_headings_end_at_the_bottom():
    heading = "newt\nn_train=3\naccuracy ↑"
    assert align(["model", heading], [["a", "1"]], right=[heading]) == [
        "             newt",
        "        n_train=3",
        "model  accuracy ↑",
        "a               1",
    ]


def test_nothing_is_cut_and_no_cell_breaks_the_line():
    long = "x" * 300
    lines = align(["a", "b"], [[long, "line\nbreak\tand tab"]])
    assert lines[1] == f"{long}  line break and tab"


@pytest.mark.parametrize("body", [[], [["", ""]]])
def test_empty_tables_have_a_heading(body):
    assert align(["a", "b"], body)[0] == "a  b"


def test_rows_of_another_length_are_a_bug_that_shows():
    with pytest.raises(ValueError):
        align(["a", "b"], [["1"]])


def test_columns_cost_no_database_and_no_numpy():
    code = (
        "import sys, fieldmark.report.table.layout as _; "
        "heavy = {'numpy', 'polars', 'sqlite3', 'scipy'}; "
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

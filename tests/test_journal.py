"""Journal: what was appended is there, whatever happens to the process or the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.errors import StoreError
from fieldmark.journal import Journal, read_rows, seal, unseal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def write(path: Path, *numbers: int) -> None:
    with Journal(path) as journal:
        for number in numbers:
            journal.append({"n": number})


def numbers(path: Path) -> list[int]:
    return [row["n"] for row in read_rows(path)]


@given(st.dictionaries(st.text(), JSON, min_size=1))
def test_a_row_comes_back_as_it_was(row: dict[str, object]) -> None:
    line = seal(row)
    assert line.count(b"\n") == 1 and unseal(line) == row
    assert json.loads(line).keys() == row.keys() | {"crc"}


@given(st.data())
def test_no_damage_gives_another_row(data: st.DataObject) -> None:
    line = seal({"name": "wren", "n": 17})
    place = data.draw(st.integers(0, len(line) - 1))
    broken = (
        line[:place]
        + bytes([line[place] ^ (1 << data.draw(st.integers(0, 7)))])
        + line[place + 1 :]
    )
    row = unseal(broken)
    assert row is None or (row["name"], row["n"]) == ("wren", 17)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_tail_that_was_cut_off_is_dropped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "state.jsonl"
    write(path, 1, 2)
    path.write_bytes(path.read_bytes()[:-cut])
    assert numbers(path) == [1]
    write(path, 3)
    assert numbers(path) == [1, 3]
    assert len(path.read_bytes().splitlines()) == 2


def test_a_file_without_a_line_break_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    path.write_bytes(b"x" * 200_000)
    write(path, 1)
    assert path.read_bytes() == seal({"n": 1})


def test_damage_costs_its_own_line_only(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    write(path, 1, 2, 3)
    path.write_bytes(path.read_bytes().replace(b'{"n":2', b'{"n":7'))
    assert numbers(path) == [1, 3]


def test_a_file_has_one_writer_and_any_number_of_readers(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    with Journal(path) as journal:
        journal.append({"n": 1})
        with pytest.raises(StoreError, match="being written by another process"):
            Journal(path)
        assert numbers(path) == [1]
    write(path, 2)
    assert numbers(path) == [1, 2]


def test_writers_of_one_folder_have_a_file_each(tmp_path: Path) -> None:
    with Journal.in_folder(tmp_path) as one, Journal.in_folder(tmp_path) as two:
        one.append({"n": 1})
        two.append({"n": 2})
    assert sorted(n for path in tmp_path.iterdir() for n in numbers(path)) == [1, 2]


def test_what_was_appended_outlives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    code = (
        "import os, signal, sys, pathlib; from fieldmark.journal import Journal;"
        "journal = Journal(pathlib.Path(sys.argv[1]));"
        "[journal.append({'n': n}) for n in range(1000)];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert numbers(path) == list(range(1000))
    write(path, 1000)  # the lock has gone with its holder


def test_an_offset_is_where_the_line_begins(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    write(path, 1)
    with Journal(path) as journal:
        start = journal.append({"n": 22})
        assert journal.append({"n": 3}, is_durable=True) == start + len(seal({"n": 22}))
    assert unseal(path.read_bytes()[start:].partition(b"\n")[0] + b"\n") == {"n": 22}


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="file/state.jsonl  the journal cannot be used") as error:
        Journal(tmp_path / "file" / "state.jsonl")
    assert "\n" not in str(error.value)
    assert not list(read_rows(tmp_path / "none.jsonl"))
    with pytest.raises(StoreError, match="cannot be used: Is a directory"):
        list(read_rows(tmp_path))


def test_after_a_failed_write_nothing_more_is_taken(tmp_path: Path) -> None:
    """A full disk: what would follow a torn line is refused, as the line was."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with Journal(full) as journal:
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left"):
                journal.append({"n": 1})

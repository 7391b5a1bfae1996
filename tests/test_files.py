"""Atomic writes: a file is there whole, or what was there before is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import DataError
from fieldmark.files import whole_file, write_file


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_file_appears_whole(tmp_path: Path, is_durable: bool) -> None:
    place = tmp_path / "new" / "a.bin"
    with whole_file(place, is_durable) as file:
        file.write(b"half")
        file.flush()
        assert not place.exists()
        file.write(b" and half")
    assert place.read_bytes() == b"half and half"
    assert list(place.parent.iterdir()) == [place]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "a.bin"
    write_file(place, b"old")
    with pytest.raises(RuntimeError), whole_file(place) as file:
        file.write(b"new")
        raise RuntimeError
    assert place.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [place]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="file/a.bin  cannot be written: File exists"):
        write_file(tmp_path / "file" / "a.bin", b"")

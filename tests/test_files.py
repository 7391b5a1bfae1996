"""Atomic writes: a file is there whole, or what was there before is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.data.read.table import read_json
from fieldmark.errors import DataError
from fieldmark.files import parse_json, whole_file, write_file
from fieldmark.tryout.fitted import load_fitted


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


def test_json_nested_too_deep_is_no_json(tmp_path: Path) -> None:
    """Annotations and models of strangers ended in a traceback."""
    deep = tmp_path / "model.json"
    deep.write_text("[" * 20_000)
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(deep.read_bytes())
    with pytest.raises(DataError, match=r"model.json  cannot be read as JSON: nested too deep\."):
        read_json(deep)
    with pytest.raises(
        DataError, match=r"model.json is not a model that this fieldmark has written"
    ):
        load_fitted(tmp_path)

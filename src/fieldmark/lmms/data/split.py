"""What does one row of a dataset hold, and which pictures come with it?

A row without its media is read without them: no picture is decoded, nor read from disk. With them,
pictures are Pillow images as the `datasets` library gives them, but their pixels are decoded when
somebody looks at them, and until then their bytes are as they were.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from fieldmark.errors import DataError
from fieldmark.lmms.data.decode import DAMAGE, LISTS, decoded, find_picture, words_of
from fieldmark.locate import is_file

_MEDIA = ("Image", "Audio")
_AT_ONCE = 32
"""rows that are read together, pictures and all"""


class Split:
    """The documents of one split, by number. `data` is a `datasets.Dataset`.

    `folders` are where files are looked for that rows name.
    """

    def __init__(self, data: Any, name: str, where: str = "", folders: Sequence[Path] = ()) -> None:
        self.name, self.where, self.folders = name, where, folders
        self._data = data
        self._digests: dict[tuple[int, ...], str] = {}
        self._is_custom = data.format["type"] == "custom"
        """a task may have hung a function of its own on the rows: only the library can call it"""

    def __len__(self) -> int:
        return len(self._data)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All of them, media too."""
        return tuple(self._data[0] if self._is_custom and len(self) else self._data.column_names)

    @cached_property
    def media_columns(self) -> tuple[str, ...]:
        """Columns of pictures, of lists of pictures, and of sounds."""
        return tuple(name for name, each in self._features.items() if _is_media(each))

    def document(self, index: int, media: bool = False) -> dict[str, Any]:
        """A row as plain values, made anew at each call.

        Without `media` its media columns are absent; pictures deeper in a row stay encoded.
        """
        if self._is_custom:
            return self._library_row(index, media)
        if not media:
            row: dict[str, Any] = self._plain_features.decode_example(self._row(self._plain, index))
            return row
        raw = self._row(self._all, index)
        return {name: self._decoded(index, name, raw[name]) for name in self.columns}

    def digest(self, indices: Iterable[int], anew: bool = False) -> str:
        """Stands for the content of these rows, in this order, with the bytes of their media and of
        the image files they name; read once, whoever asks, unless `anew`.
        """
        rows = tuple(indices)
        if anew:
            return self._digest(rows)
        if rows not in self._digests:
            self._digests[rows] = self._digest(rows)
        return self._digests[rows]

    def _digest(self, rows: Iterable[int]) -> str:
        hasher, rest = hashlib.blake2b(digest_size=16), iter(rows)
        while some := list(islice(rest, _AT_ONCE)):
            for row in self._all[some].to_pylist():
                _feed(hasher, row, self.folders)
        return hasher.hexdigest()

    @cached_property
    def _features(self) -> Any:
        """Asked for once: the library copies all of them each time."""
        return self._data.features

    @cached_property
    def _all(self) -> Any:
        return self._data.with_format("arrow")

    @cached_property
    def _plain(self) -> Any:
        keep = [name for name in self.columns if name not in self.media_columns]
        return self._data.select_columns(keep).with_format("arrow")

    @cached_property
    def _plain_features(self) -> Any:
        features = self._plain.features
        return type(features)({name: _encoded(each) for name, each in features.items()})

    def _row(self, data: Any, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"document {index} of {len(self)} in split {self.name!r}")
        if not data.column_names:
            return {}
        row: dict[str, Any] = data[index].to_pylist()[0]
        return row

    def _decoded(self, index: int, name: str, value: Any) -> Any:
        try:
            return decoded(self._features[name], value, self.folders)
        except DAMAGE as error:
            raise self._damage(index, name, error) from error

    def _library_row(self, index: int, media: bool) -> dict[str, Any]:
        row = dict(self._data[index])
        return row if media else {k: v for k, v in row.items() if k not in self.media_columns}

    def _damage(self, index: int, name: str, error: BaseException) -> DataError:
        start = f"{self.where}  " if self.where else ""
        return DataError(
            f"{start}document {index} of split {self.name!r}: column {name!r} "
            f"cannot be read: {words_of(error)}."
        )


def _is_media(feature: Any) -> bool:
    kind = type(feature).__name__
    if isinstance(feature, list) and len(feature) == 1:
        return type(feature[0]).__name__ == "Image"
    if kind in LISTS:
        return type(feature.feature).__name__ == "Image"
    return kind in _MEDIA


def _encoded(feature: Any) -> Any:
    """The same kind of column, whose pictures, sounds and videos are not decoded."""
    if isinstance(feature, Mapping):
        return {name: _encoded(each) for name, each in feature.items()}
    if isinstance(feature, list):
        return [_encoded(each) for each in feature]
    if type(feature).__name__ in LISTS:
        return dataclasses.replace(feature, feature=_encoded(feature.feature))
    if getattr(feature, "decode", False) is True:
        return dataclasses.replace(feature, decode=False)
    return feature


def _feed(hasher: hashlib.blake2b, value: Any, folders: Sequence[Path]) -> None:
    """Every value with its kind and length, so that no two rows look alike; keys in order."""
    if isinstance(value, Mapping):
        if set(value) == {"bytes", "path"}:
            return _feed(hasher, _media_bytes(value, folders), ())
        hasher.update(f"m{len(value)}:".encode())
        for key in sorted(value, key=str):
            _feed(hasher, str(key), ())
            _feed(hasher, value[key], folders)
    elif isinstance(value, (list, tuple)):
        hasher.update(f"l{len(value)}:".encode())
        for each in value:
            _feed(hasher, each, folders)
    else:
        is_bytes = isinstance(value, (bytes, bytearray))
        data = bytes(value) if is_bytes else str(value).encode("utf-8", "surrogatepass")
        hasher.update(f"{type(value).__name__}{len(data)}:".encode() + data)
        named = find_picture(value, folders) if isinstance(value, str) and folders else None
        if named is not None:
            _feed(hasher, named.read_bytes(), ())
    return None


def _media_bytes(value: Mapping[str, Any], folders: Sequence[Path]) -> Any:
    """What a picture's file holds; where it lies does not count."""
    if value["bytes"] is not None or value["path"] is None:
        return value["bytes"]
    path = find_picture(value["path"], folders) or Path(value["path"])
    return path.read_bytes() if is_file(path) else str(value["path"])

"""Dataset contract: what a dataset module must offer.

A module `data/sets/NAME.py` is the dataset NAME. It holds `INFO` and these functions:

    table(root)              files on disk → one row per item (columns below)
    check(root)              what is missing or odd in a user's folder
    make(root, world, size)  a synthetic copy in the exact layout, about `size` images
    listed_sources(root)     optional: the images whose addresses the dataset's own table lists

A user's own needs only `INFO` and `table`; its `check` then looks at labels, classes and images.

Reading a table never opens an image. `label` is a *name*; integer ids are made from the union of
all splits, in one place (`label_ids`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

import polars as pl

from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World


COLUMNS: dict[str, Any] = {
    "id": pl.String,  # unique, stable; stored with each prediction
    "image": pl.String,  # relative to root; `archive.tar::member`, `file.parquet::row`
    "crop": pl.List(pl.Float64),  # x, y, w, h in pixels of the upright image, or null
    "split": pl.String,
    "label": pl.String,
    "unit": pl.String,  # what is independent for statistics; null = the row itself
}


@dataclass(frozen=True, slots=True)
class Source:
    """One file to fetch, or the steps a person must take."""

    url: str = ""
    filename: str = ""
    """where it lies below the dataset's folder; where not given, the last part of the address"""
    n_bytes: int | None = None
    """its size; a whole number of millions counts as rough and is not held against the file"""
    md5: str = ""
    mirrors: tuple[str, ...] = ()
    steps: str = ""
    """what to do by hand where nothing can be fetched"""
    sha256: str = ""
    kind: str = ""
    """"annotations" or "images", for `--only`; "" = told from the file's name"""
    unpack: str = "."
    """folder below the dataset's that an archive is unpacked into; "" = it stays packed"""
    strip: int = 0
    """how many leading folders of the archive's names are left out"""
    unpacked_bytes: int | None = None
    """size of all files in the archive: bounds what is unpacked, and the space asked for"""
    n_files: int | None = None
    """files in the archive: bounds how many are unpacked"""
    part_of: str = ""
    """the archive that this file and the others of the same `part_of` make, in order"""

    def __post_init__(self) -> None:
        if not self.filename:
            last = PurePosixPath(unquote(urlsplit(self.url).path)).name
            object.__setattr__(self, "filename", last)


@dataclass(frozen=True, slots=True)
class Info:
    """What a person must know before using a dataset."""

    title: str
    licence: str
    citation: str
    homepage: str = ""
    layout: str = ""
    """one line per file or folder a user must have"""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `check`."""

    level: str
    """"error": tasks cannot run; "warning": they can, with this in mind; "note" """
    text: str


class Dataset(Protocol):
    """The shape of a dataset module."""

    INFO: Info

    def table(self, root: Path) -> pl.DataFrame: ...

    def check(self, root: Path) -> list[Finding]: ...

    def make(self, root: Path, world: World, size: int) -> None: ...


_IS_PLACE = re.compile(r"(^|_)(id|ids|image|path|file|filename|folder|video|url)$")
"""columns that name a place on a disk, which must stay as it is written there"""


def finish_table(frame: pl.DataFrame, origin: Path | str) -> pl.DataFrame:
    """The table with all contract columns, typed and first; no empty table, no twin ids."""
    for name, dtype in COLUMNS.items():
        if name in frame.columns and name == "image" and frame.schema[name] == pl.List(pl.String):
            continue  # a clip: several images an item
        column = pl.col(name) if name in frame.columns else pl.lit(None)
        frame = frame.with_columns(column.cast(dtype).alias(name))
    # macOS and zip files write "é" as two characters; beside the one of others it is another label.
    names = [column for column, kind in frame.schema.items() if kind == pl.String]
    names = [name for name in names if not _IS_PLACE.search(name)]
    frame = frame.with_columns(pl.col(names).str.normalize("NFC"))
    if frame.is_empty():
        raise DataError(f"{origin}  lists no photos: an empty dataset cannot be used.")
    twins = frame.filter(pl.col("id").is_duplicated()).get_column("id").unique(maintain_order=True)
    if len(twins):
        shown = ", ".join(map(repr, twins.head(3)))
        raise DataError(
            f"{origin}  {len(twins)} ids are on more than one row ({shown}): ids must be unique."
        )
    return frame.select(*COLUMNS, *[name for name in frame.columns if name not in COLUMNS])


def label_ids(labels: pl.Series) -> dict[str, int]:
    """Name → integer for all labels of all splits, in name order: the only place ids are made."""
    return {name: index for index, name in enumerate(sorted(labels.drop_nulls().unique()))}


def need(path: Path, what: str, name: str) -> Path:
    """The path, or an error that says what should be there."""
    if not path.exists():
        raise DataError(
            f"{path}  is missing: {what}. `fieldmark datasets {name}` shows layout and sources."
        )
    return path


def find_home(root: Path, homes: Sequence[str], marker: str) -> Path:
    """The first of the folders below root that holds the marker; the first of all if none does."""
    folders = [root / home for home in homes]
    return next((folder for folder in folders if (folder / marker).exists()), folders[0])


SPLITS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
"""A folder's or a table's word → the one tasks use."""


def split_name(text: str) -> str:
    """`Valid` → `val`; words that are not known stay as they are.

    >>> split_name("Valid"), split_name("fold 3")
    ('val', 'fold 3')
    """
    return SPLITS.get(text.strip().lower(), text.strip())


def unique_names(names: Mapping[str, str]) -> dict[str, str]:
    """Key → name; a name that several keys share carries its key, so that labels stay apart.

    >>> unique_names({"134": "crane", "517": "crane", "0": "tench"})
    {'134': 'crane (134)', '517': 'crane (517)', '0': 'tench'}
    """
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else f"{name} ({key})" for key, name in names.items()}


def shared_names(names: Mapping[str, str]) -> list[str]:
    """The names that several keys have, sorted."""
    return sorted(name for name, count in Counter(names.values()).items() if count > 1)

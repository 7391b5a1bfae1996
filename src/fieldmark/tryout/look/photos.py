"""Labelled photos as people have them (class folders, tables): which photo has which label?

Class folders may lie at any depth, with or without train and test folders; a table names a photo
and its label in each row. What says the label and what says the unit (camera, site, individual) is
guessed from names and can be said; either way it is told.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.data import COLUMNS, SPLITS
from fieldmark.data.csv import table as read_csv
from fieldmark.data.read.folders import is_image, walk_files
from fieldmark.errors import DataError, UsageError

JUNK = ("__MACOSX", "@eaDir", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN")
_NEITHER = re.compile(r"conf_[\d.-]+|verified|DCIM|\d{3}[A-Z_]{5}|\d[\d ._:T-]*", re.IGNORECASE)
"""folders that name neither a label nor a place: confidences, camera folders, dates, counters"""
_PLACE = re.compile(
    r"(cam|camera|site|station|plot|trap|deployment|location|loc|transect|card|session|visit|"
    r"burst|seq|sequence|observer|individual|animal|day|week|month)[ _-]?[\w-]*",
    re.IGNORECASE,
)
TABLES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class Columns:
    """What the user says about the input; "" and 0 mean that it is guessed."""

    image: str = ""
    label: str = ""
    unit: str = ""
    label_part: int = 0
    """which folder names the label: 1 is the outermost"""
    boxes: Path | None = None
    """results of MegaDetector: photos are cut to their animal"""


@dataclass(frozen=True, slots=True)
class LabelledPhotos:
    """Labelled photos."""

    root: Path
    table: pl.DataFrame
    """the columns of a dataset; `unit` is null where nothing names it"""
    label_from: str
    """what names the label, in words: "folder 1", "column species" """
    unit_from: str
    """what names the unit; "" = nothing does"""
    n_ignored: int = 0
    """files that are not photos, and photos in no folder"""
    empty: tuple[str, ...] = ()
    """folders without photos"""


# --- folders


def photo_files(root: Path) -> tuple[list[str], int]:
    """Photos below a folder, and how many other files; what systems leave there is no photo."""
    paths, n_other = list[str](), 0
    for path in walk_files(root):
        if is_image(path) and not any(part in JUNK for part in path.split("/")):
            paths.append(path)
        else:
            n_other += 1
    return paths, n_other


def read_folder(root: Path, columns: Columns) -> LabelledPhotos:
    if columns.image or columns.label or columns.unit:
        raise UsageError(
            f"{root} is a folder, and --image, --label and --unit name columns of a table: leave "
            "them out, or give the table."
        )
    paths, n_other = photo_files(root)
    folders = [tuple(path.split("/")[:-1]) for path in paths]
    # A label may be called train: only a folder of folders is a split.
    has_splits = any(len(parts) > 1 and _split_of(parts) for parts in folders)
    rest = [parts[1:] if has_splits and _split_of(parts) else parts for parts in folders]
    depth = max((len(parts) for parts in rest), default=0)
    if not depth:
        content = f"{len(paths):,} photos outside any folder" if paths else "no photos"
        raise DataError(
            f"{root} holds {content}: sort them into one folder per label, or give a table "
            "(.csv) with a column for the photo and one for the label."
        )
    label_at, unit_at = _choose_parts(rest, columns.label_part)
    rows = []
    for path, parts, inner in zip(paths, folders, rest, strict=True):
        if len(inner) > label_at:
            split = _split_of(parts) if has_splits else None
            unit = inner[unit_at] if unit_at is not None and len(inner) > unit_at else None
            rows.append((path, path, split, inner[label_at], unit, None))
    return LabelledPhotos(
        root,
        pl.DataFrame(rows, orient="row", schema=SCHEMA),
        f"folder {label_at + 1}",
        f"folder {unit_at + 1}" if unit_at is not None else "",
        n_other + len(paths) - len(rows),
        _empty_folders(root),
    )


SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("id", "image", "split", "label", "unit"), pl.String),
    "crop": pl.List(pl.Float64),
}


def _empty_folders(root: Path) -> tuple[str, ...]:
    """Innermost folders in which nobody put a photo; hidden ones are other programs'."""
    empty = (
        Path(folder).relative_to(root)
        for folder, inner, names in os.walk(root)
        if not inner and not any(map(is_image, names))
    )
    is_junk = re.compile(rf"\.|({'|'.join(map(re.escape, JUNK))})$").match
    return tuple(sorted(path.as_posix() for path in empty if not any(map(is_junk, path.parts))))


def _split_of(parts: Sequence[str]) -> str | None:
    return SPLITS.get(parts[0].lower()) if parts else None


def _choose_parts(folders: Sequence[Sequence[str]], wanted: int) -> tuple[int, int | None]:
    """Which folder is the label, and which the unit: the first that reads like a label, and the
    first that reads like a place (camera 3, site_B).
    """
    depth = max(len(parts) for parts in folders)
    if wanted > depth or wanted < 0:
        raise UsageError(f"--label-part {wanted}: expected 1 to {depth}, the folders there are.")
    values = [Counter(p[at] for p in folders if len(p) > at) for at in range(depth)]
    is_neither = [_reads_as(_NEITHER, names) for names in values]
    is_place = [_reads_as(_PLACE, names) for names in values]
    named = [at for at in range(depth) if not is_neither[at] and not is_place[at]]
    label = wanted - 1 if wanted else (named or [0])[0]
    places = [at for at in range(depth) if is_place[at] and at != label]
    return label, places[0] if places else None


def _reads_as(pattern: re.Pattern[str], names: Counter[str]) -> bool:
    """Do most of several names have this form? A single folder decides nothing."""
    n = sum(bool(pattern.fullmatch(name)) for name in names)
    return len(names) > 1 and n > 0.8 * len(names)


# --- tables


def read_table(path: Path, columns: Columns) -> LabelledPhotos:
    if columns.label_part:
        raise UsageError("--label-part is about folders: name the column with --label.")
    given = {role: getattr(columns, role) or None for role in ("image", "label", "unit")}
    every = read_csv(path, **given)
    table = every.filter(pl.col("label").is_not_null())
    if table.is_empty():
        raise DataError(f"{path} has no row with a label.")
    unit_from = "" if table.get_column("unit").is_null().all() else _same_column(table, "unit")
    n_ignored = len(every) - len(table)
    return LabelledPhotos(path.parent, table, _same_column(table, "label"), unit_from, n_ignored)


def _same_column(table: pl.DataFrame, role: str) -> str:
    """Which of the table's own columns plays this role, in words."""
    values = table.get_column(role)
    others = (name for name in table.columns if name not in COLUMNS)
    same = (name for name in others if table.get_column(name).cast(pl.String).equals(values))
    return f"column {next(same, role)}"

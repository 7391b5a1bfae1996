"""Parquet files of a dataset hub: images kept in tables, with their labels.

    ROOT/data/train-00000-of-00294.parquet       as uploaded
    ROOT/default/train/0000.parquet              as converted by the hub
    ROOT/train-00000-of-00294.parquet            the files alone

An image is named `file.parquet::ROW`. Labels may be whole numbers whose names stand in the file's
own metadata. Images are never read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fieldmark.data._bytes import PARQUET_SUFFIX
from fieldmark.data._check import counted, name_some, named_findings
from fieldmark.data._dataset import Finding
from fieldmark.data.read.table import image_columns, read_columns, read_table
from fieldmark.errors import DataError
from fieldmark.files import parse_json

PLACES = ("data", "default", ".")
HUB_KEY = "huggingface"
_PART = re.compile(r"(?P<split>.+)-(?P<number>\d+)-of-(?P<count>\d+)(?:-[0-9a-f]+)?\.parquet")


@dataclass(frozen=True, slots=True)
class ParquetFile:
    path: str
    """relative to root"""
    split: str


def find_parts(root: Path, splits: Mapping[str, str]) -> list[ParquetFile]:
    """The files of the first place that has any; `splits` maps the hub's word to the split."""
    for folder in PLACES:
        parts = [
            ParquetFile(path.relative_to(root).as_posix(), split)
            for word, split in splits.items()
            for path in _files(root / folder, word)
        ]
        if parts:
            return parts
    return []


def _files(folder: Path, word: str) -> list[Path]:
    inner = folder / word
    if inner.is_dir():
        return sorted(inner.glob(f"*{PARQUET_SUFFIX}"))
    return sorted(folder.glob(f"{word}-*{PARQUET_SUFFIX}")) if folder.is_dir() else []


def read_parts(root: Path, parts: Collection[ParquetFile], needed: Collection[str]) -> pl.DataFrame:
    """All columns but the images, with image reference, id and split; files in order."""
    return pl.concat([_read_part(root, part, needed) for part in parts], how="diagonal_relaxed")


def _read_part(root: Path, part: ParquetFile, needed: Collection[str]) -> pl.DataFrame:
    path = root / part.path
    columns = read_columns(path)
    missing = [name for name in needed if name not in columns]
    if missing:
        raise DataError(
            f"{path}  lacks the columns {name_some(missing)}: it has {', '.join(columns)}."
        )
    if "image" not in image_columns(path):
        raise DataError(f"{path}  has no column 'image' of encoded images.")
    try:
        frame = read_table(path, ())
    except pl.exceptions.PolarsError as error:
        line = str(error).strip().splitlines()[0]
        raise DataError(f"{path}  is damaged: {line}") from error
    row = pl.int_range(pl.len()).cast(pl.String)
    reference = pl.lit(f"{part.path}::") + row
    return frame.with_columns(image=reference, id=reference, split=pl.lit(part.split))


def label_names(path: Path) -> list[str]:
    """What the numbers in the column `label` stand for, by the file's own metadata; [] without."""
    try:
        metadata = pl.read_parquet_metadata(path).get(HUB_KEY, "")
        names = parse_json(metadata)["info"]["features"]["label"]["names"]
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError):
        return []
    return [str(name) for name in names]


def part_findings(parts: Collection[ParquetFile]) -> Iterator[Finding]:
    """Files that their neighbours' names (`…-of-00294`) say should be there."""
    by_split: dict[tuple[str, int], set[int]] = {}
    for part in parts:
        match = _PART.fullmatch(part.path.rpartition("/")[2])
        if match:
            key = (match["split"], int(match["count"]))
            by_split.setdefault(key, set()).add(int(match["number"]))
    for (word, count), numbers in by_split.items():
        missing = [
            f"{word}-{number:05}-of-{count:05}" for number in range(count) if number not in numbers
        ]
        text = f"{len(missing)} of {counted(count, 'file')} of {word} are missing"
        yield from named_findings("error", missing, text)


def write_part(path: Path, frame: pl.DataFrame, names: Collection[str] = ()) -> None:
    """Writes rows with `image` pairs; names, if given, are those of the column `label`."""
    features: dict[str, object] = {"image": {"_type": "Image"}}
    if names:
        features["label"] = {"names": list(names), "_type": "ClassLabel"}
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path, metadata={HUB_KEY: json.dumps({"info": {"features": features}})})

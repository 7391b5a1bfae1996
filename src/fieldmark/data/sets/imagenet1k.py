"""ImageNet-1K (ILSVRC 2012).

Read from the hub's parquet files, or from ROOT/{train,val}/WNID folders. In the table

    label        the class's name, `tench, Tinca tinca`; where two classes share one, with the
                 class's number: `crane (134)`, `crane (517)`
    common_name  the first of its synonyms, `tench`
    class_id     0 … 999, the number the files hold
    wnid         n01440764, where it is known

Names come from the parquet files themselves, or from a file in ROOT (classes.py of the hub,
LOC_synset_mapping.txt, or classes.txt with a name a line); without any, the label is the number as
text, or the folder's name. Every row of every file is an item. The test files have no labels and
are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import as_findings, count_findings
from fieldmark.data._dataset import Finding, Info, Source, finish_table, unique_names
from fieldmark.data._make import encode_photo, plan_photos
from fieldmark.data.read.folders import PublishedSize, class_folders, species_findings
from fieldmark.data.read.hub_parquet import (
    ParquetFile,
    find_parts,
    label_names,
    part_findings,
    read_parts,
    write_part,
)
from fieldmark.errors import DataError, at

if TYPE_CHECKING:
    from fieldmark.world import World


PARTS = {"train": "train", "validation": "val"}
SPLIT_FOLDERS = {"train": "train", "val": "val", "validation": "val"}
N_IMAGES = {"train": 1_281_167, "val": 50_000}
N_CLASSES = 1_000

INFO = Info(
    title="ImageNet-1K (ILSVRC 2012)",
    licence="ImageNet terms of access: non-commercial research and education",
    citation="Russakovsky et al. ImageNet Large Scale Visual Recognition Challenge. IJCV 115, "
    "2015. arXiv:1409.0575",
    homepage="https://huggingface.co/datasets/ILSVRC/imagenet-1k",
    layout="ROOT/data/train-*.parquet\nROOT/data/validation-*.parquet\n"
    "or ROOT/train/WNID/*.JPEG and ROOT/val/WNID/*.JPEG\n"
    "ROOT/classes.py, LOC_synset_mapping.txt or classes.txt  (optional: class names)",
    sources=(
        Source(
            steps="ImageNet needs a login. 1. Sign in at huggingface.co and accept the terms at "
            "https://huggingface.co/datasets/ILSVRC/imagenet-1k. 2. Make a read token under "
            "Settings, Access Tokens, and run `hf auth login`. 3. Run `hf download "
            "ILSVRC/imagenet-1k --repo-type dataset --include 'data/train-*' --include "
            "'data/validation-*' --include classes.py --local-dir ROOT` (about 150 GB). "
            "4. Run `fieldmark data check imagenet1k ROOT`."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image: parquet files where there are any, else folders."""
    parts = find_parts(root, PARTS)
    return _from_parts(root, parts) if parts else _from_folders(root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, missing files, missing names, classes of one split, unreadable images."""
    rows = table(root)
    parts = find_parts(root, PARTS)
    listed = None if parts else class_folders(root, SPLIT_FOLDERS)
    folders = {"train": "data", "val": "data"} if parts else {"train": "train", "val": "val"}
    findings = (*part_findings(parts), *_left_out(root, rows))
    return species_findings(
        root, listed, rows, PublishedSize(N_IMAGES, folders, N_CLASSES), findings
    )


# --- reading ---


def _from_parts(root: Path, parts: list[ParquetFile]) -> pl.DataFrame:
    frame = read_parts(root, parts, needed=("image", "label"))
    if not frame.schema["label"].is_integer():
        dtype = frame.schema["label"]
        raise DataError(
            f"{root / parts[0].path}  column 'label' contains {dtype}: expected whole numbers."
        )
    names = read_class_names(root)
    if not names:
        names = [ClassName(name) for name in label_names(root / parts[0].path)]
    ids = frame.get_column("label").drop_nulls().unique().to_list()
    odd = [number for number in ids if number < 0 or (names and number >= len(names))]
    if odd:
        expected = f"0 to {len(names) - 1}" if names else "0 or more"
        raise DataError(f"{root}  contains the label {min(odd)}: expected {expected}.")
    frame = frame.select("id", "image", "split", class_id=pl.col("label").cast(pl.Int64))
    numbers = range(max(ids, default=-1) + 1)
    classes = _classes(names or [ClassName(str(number)) for number in numbers])
    if not names:
        classes = classes.with_columns(common_name=pl.lit(None, pl.String))
    return finish_table(_joined(frame, classes, "class_id"), root)


def _from_folders(root: Path) -> pl.DataFrame:
    frame = class_folders(root, SPLIT_FOLDERS).frame(
        f"{root}  contains no images of ImageNet-1K: expected ROOT/data/train-*.parquet or "
        "ROOT/{train,val}/WNID/*.JPEG. `fieldmark datasets imagenet1k` shows layout and sources."
    )
    frame = frame.select("id", "image", "split", wnid="class_folder")
    named = _classes([name for name in read_class_names(root) if name.wnid])
    frame = _joined(frame, named, "wnid")
    return finish_table(frame.with_columns(pl.coalesce("label", "wnid").alias("label")), root)


def _classes(names: list[ClassName]) -> pl.DataFrame:
    labels = unique_names({str(number): one.name for number, one in enumerate(names)})
    return pl.DataFrame(
        {
            "class_id": range(len(names)),
            "label": list(labels.values()),
            "common_name": [one.name.partition(",")[0].strip() for one in names],
            "wnid": [one.wnid for one in names],
        },
        schema_overrides=dict.fromkeys(("label", "common_name", "wnid"), pl.String),
    )


def _joined(frame: pl.DataFrame, classes: pl.DataFrame, on: str) -> pl.DataFrame:
    joined = frame.join(classes, on=on, how="left", maintain_order="left")
    return joined.select("id", "image", "split", "label", "common_name", "class_id", "wnid")


# --- checking ---


def _left_out(root: Path, rows: pl.DataFrame) -> Iterator[Finding]:
    n_parts = len(find_parts(root, {"test": "test"}))
    yield from count_findings("note", n_parts, "without labels, left out", "test file")
    n_without = rows.filter(pl.col("common_name").is_null()).get_column("label").n_unique()
    text = "without a name: put classes.py of the hub's page into ROOT"
    yield from count_findings("warning", n_without, text, "class", "classes")


# --- names of classes ---
#
# classes.py               of the hub's page: a dictionary of wnid and name; read, never run
# LOC_synset_mapping.txt   of Kaggle: `n01440764 tench, Tinca tinca` a line
# classes.txt              a name a line

_PAIR = re.compile(r"""["'](n\d{8})["']\s*:\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_LINE = re.compile(r"(n\d{8})\s+(\S.*)")


@dataclass(frozen=True, slots=True)
class ClassName:
    name: str
    wnid: str | None = None


def read_class_names(root: Path) -> list[ClassName]:
    """In the order of their numbers; [] where no file gives them."""
    for name, read in (("classes.py", _from_code), ("LOC_synset_mapping.txt", _from_mapping)):
        if (root / name).is_file():
            return read(root / name)
    path = root / "classes.txt"
    lines = map(str.strip, _text(path).splitlines()) if path.is_file() else ()
    return [ClassName(line) for line in lines if line]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}  cannot be read: {error}.") from error


def _from_code(path: Path) -> list[ClassName]:
    pairs = _PAIR.findall(_text(path))
    if not pairs:
        raise DataError(f"{path}  names no classes: expected lines like 'n01440764': 'tench'.")
    return [ClassName(str(ast.literal_eval(name)), wnid) for wnid, name in pairs]


def _from_mapping(path: Path) -> list[ClassName]:
    names = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        match = _LINE.fullmatch(line.strip())
        if match:
            names.append(ClassName(match[2], match[1]))
        elif line.strip():
            raise DataError(
                at(path, number, f"{line.strip()!r}: expected `n01440764 tench, Tinca tinca`.")
            )
    return names


# --- making ---

PATTERN = ("train", "validation", "train", "train", "validation", "train")
N_FILES = {"train": 2, "validation": 1}
FIRST_WNID = 1_440_764


def make(root: Path, world: World, size: int) -> None:
    """Two training files and one of validation, with class names in their metadata.

    Rows of a split are spread over its files.
    """
    rows: dict[str, list[dict[str, object]]] = {}
    names: dict[int, str] = {}
    for photo in plan_photos(world, size, "imagenet1k", PATTERN):
        names[photo.rank] = f"{photo.species.common_name}, {photo.species.scientific_name}"
        name = f"n{FIRST_WNID + photo.rank:08}_{photo.turn}.JPEG"
        image = {"bytes": encode_photo(world, photo.scene), "path": name}
        rows.setdefault(photo.split, []).append({"image": image, "label": photo.rank})
    ordered = [names[rank] for rank in sorted(names)]
    for split, n_files in N_FILES.items():
        for number in range(n_files):
            path = root / "data" / f"{split}-{number:05}-of-{n_files:05}.parquet"
            write_part(path, pl.DataFrame(rows[split][number::n_files]), ordered)

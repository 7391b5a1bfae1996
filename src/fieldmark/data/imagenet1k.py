"""What is in ImageNet-1K (ILSVRC 2012)?

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

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import class_findings, counted, image_findings
from fieldmark.data._class_folders import folder_findings, list_class_folders
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._hub_parquet import Part, find_parts, label_names, part_findings, read_parts
from fieldmark.data._imagenet_names import ClassName, read_class_names
from fieldmark.data._published import published_findings, split_findings
from fieldmark.data._unique_names import unique_names
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

PARTS = {"train": "train", "validation": "val"}
SPLIT_FOLDERS = {"train": "train", "val": "val", "validation": "val"}
PUBLISHED = {"train": 1_281_167, "val": 50_000}
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


def check(root: Path) -> list[Finding]:
    """Counts, missing files, missing names, classes of one split, unreadable images."""
    parts = find_parts(root, PARTS)
    try:
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    found = [] if parts else list(folder_findings(list_class_folders(root, SPLIT_FOLDERS)))
    places = {"train": "data", "val": "data"} if parts else {"train": "train", "val": "val"}
    return [
        *found,
        *part_findings(parts),
        *_test_findings(root),
        *_name_findings(rows),
        *published_findings(rows, PUBLISHED, N_CLASSES),
        *split_findings(root, rows, places),
        *class_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Two training files and one of validation, with class names in their metadata."""
    from fieldmark.data._imagenet_make import write_imagenet

    write_imagenet(root, world, size)


# --- reading ---


def _from_parts(root: Path, parts: list[Part]) -> pl.DataFrame:
    frame = read_parts(root, parts, needed=("image", "label"))
    if not frame.schema["label"].is_integer():
        found = frame.schema["label"]
        raise DataError(
            f"{root / parts[0].path}  column 'label' holds {found}: expected whole numbers."
        )
    names = read_class_names(root)
    if not names:
        names = [ClassName(each) for each in label_names(root / parts[0].path)]
    ids = frame.get_column("label").drop_nulls().unique().to_list()
    odd = [each for each in ids if each < 0 or (names and each >= len(names))]
    if odd:
        expected = f"0 to {len(names) - 1}" if names else "0 or more"
        raise DataError(f"{root}  holds the label {min(odd)}: expected {expected}.")
    frame = frame.select("id", "image", "split", class_id=pl.col("label").cast(pl.Int64))
    classes = _classes(names or [ClassName(str(each)) for each in range(max(ids, default=-1) + 1)])
    if not names:
        classes = classes.with_columns(common_name=pl.lit(None, pl.String))
    return finish_table(_joined(frame, classes, "class_id"), root)


def _from_folders(root: Path) -> pl.DataFrame:
    frame = list_class_folders(root, SPLIT_FOLDERS).frame()
    if frame.is_empty():
        raise DataError(
            f"{root}  holds no images of ImageNet-1K: expected ROOT/data/train-*.parquet or "
            "ROOT/{train,val}/WNID/*.JPEG. `fieldmark datasets imagenet1k` shows layout and "
            "sources."
        )
    frame = frame.select("id", "image", "split", wnid="class_folder")
    named = _classes([each for each in read_class_names(root) if each.wnid])
    frame = _joined(frame, named, "wnid")
    return finish_table(frame.with_columns(pl.coalesce("label", "wnid").alias("label")), root)


def _classes(names: list[ClassName]) -> pl.DataFrame:
    labels = unique_names({str(number): each.name for number, each in enumerate(names)})
    return pl.DataFrame(
        {
            "class_id": range(len(names)),
            "label": list(labels.values()),
            "common_name": [each.name.partition(",")[0].strip() for each in names],
            "wnid": [each.wnid for each in names],
        },
        schema={
            "class_id": pl.Int64,
            "label": pl.String,
            "common_name": pl.String,
            "wnid": pl.String,
        },
    )


def _joined(frame: pl.DataFrame, classes: pl.DataFrame, on: str) -> pl.DataFrame:
    joined = frame.join(classes, on=on, how="left", maintain_order="left")
    return joined.select("id", "image", "split", "label", "common_name", "class_id", "wnid")


# --- checking ---


def _name_findings(rows: pl.DataFrame) -> list[Finding]:
    n_without = rows.filter(pl.col("common_name").is_null()).get_column("label").n_unique()
    if not n_without:
        return []
    n = counted(n_without, "class", "classes")
    text = f"{n} without a name: put classes.py of the hub's page into ROOT."
    return [Finding("warning", text)]


def _test_findings(root: Path) -> list[Finding]:
    parts = find_parts(root, {"test": "test"})
    if not parts:
        return []
    return [Finding("note", f"{counted(len(parts), 'test file')} without labels, left out.")]

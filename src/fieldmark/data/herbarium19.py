"""What is in the Herbarium 2019 challenge, sheets of the melastome family?

The label is the class folder's name, a number: the challenge did not publish the species' names.
683 species of Melastomataceae, from the New York Botanical Garden.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import class_findings, image_findings
from fieldmark.data._class_folders import ClassFolders, folder_findings, list_class_folders
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._published import published_findings, split_findings
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

SPLIT_FOLDERS = {
    "train": "train",
    "small-train": "train",
    "validation": "val",
    "small-validation": "val",
}
PUBLISHED = {"train": 34_225, "val": 2_679}
N_CLASSES = 683
_ADDRESS = "https://storage.googleapis.com/nybg/herbarium-2019-fgvc6"

INFO = Info(
    title="Herbarium Challenge 2019 (FGVC6)",
    licence="none stated; for research, from the New York Botanical Garden",
    citation="Tan, Liu, Ambrose, Tulig, Belongie. The Herbarium Challenge 2019 Dataset. "
    "arXiv:1906.05372, 2019",
    homepage="https://www.kaggle.com/c/herbarium-2019-fgvc6",
    layout="ROOT/train/CLASS/*.jpg\nROOT/validation/CLASS/*.jpg",
    sources=(
        Source(
            url=f"{_ADDRESS}/train.tar.gz",
            filename="train.tar.gz",
            n_bytes=38_000_000_000,
            md5="53c6b9ee2f831f5101dbe00958091dc8",
        ),
        Source(
            url=f"{_ADDRESS}/validation.tar.gz",
            filename="validation.tar.gz",
            n_bytes=3_000_000_000,
            md5="2f854d580949e54f114993a74adc3d4b",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    return _table(root, list_class_folders(root, SPLIT_FOLDERS))


def check(root: Path) -> list[Finding]:
    """Counts, stray files, classes of one split, unreadable images."""
    try:
        found = list_class_folders(root, SPLIT_FOLDERS)
        rows = _table(root, found)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *folder_findings(found),
        *published_findings(rows, PUBLISHED, N_CLASSES),
        *split_findings(root, rows, {"train": "train", "val": "validation"}),
        *class_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Pressed plants in numbered folders, two thirds of them for training."""
    from fieldmark.data._make import take_photo
    from fieldmark.data._portrait import PLANTS, portraits

    pattern = ("train", "validation", "train", "train", "validation", "train")
    for each in portraits(world, size, "herbarium19", pattern, PLANTS, "herbarium"):
        name = f"{each.rank:03}{each.turn:05}.jpg"
        take_photo(world, each.scene, root / each.split / str(each.rank) / name)


def _table(root: Path, found: ClassFolders) -> pl.DataFrame:
    frame = found.frame()
    if frame.is_empty():
        raise DataError(
            f"{root}  holds no herbarium sheets: expected ROOT/{{train,validation}}/CLASS/*.jpg. "
            "`fieldmark datasets herbarium19` shows layout and sources."
        )
    frame = frame.with_columns(label="class_folder").drop("folder", "class_folder")
    return finish_table(frame, root)

"""Herbarium 2019 challenge: sheets of the melastome family.

The label is the class folder's name, a number: the challenge did not publish the species' names.
683 species of Melastomataceae, from the New York Botanical Garden.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import as_findings
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._make import PLANTS, plan_photos, take_photo
from fieldmark.data.read.folders import (
    PublishedSize,
    class_folders,
    species_findings,
)

if TYPE_CHECKING:
    from fieldmark.world import World

SPLIT_FOLDERS = {
    "train": "train",
    "small-train": "train",
    "validation": "val",
    "small-validation": "val",
}
PUBLISHED = PublishedSize(
    n_images={"train": 34_225, "val": 2_679},
    folders={"train": "train", "val": "validation"},
    n_classes=683,
)
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
            n_bytes=38_000_000_000,
            md5="53c6b9ee2f831f5101dbe00958091dc8",
        ),
        Source(
            url=f"{_ADDRESS}/validation.tar.gz",
            n_bytes=3_000_000_000,
            md5="2f854d580949e54f114993a74adc3d4b",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    frame = class_folders(root, SPLIT_FOLDERS).frame(
        f"{root}  contains no herbarium sheets: expected ROOT/{{train,validation}}/CLASS/*.jpg. "
        "`fieldmark datasets herbarium19` shows layout and sources."
    )
    frame = frame.with_columns(label="class_folder").drop("folder", "class_folder")
    return finish_table(frame, root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, stray files, classes of one split, unreadable images."""
    listed = class_folders(root, SPLIT_FOLDERS)
    return species_findings(root, listed, table(root), PUBLISHED)


def make(root: Path, world: World, size: int) -> None:
    """Pressed plants in numbered folders, two thirds of them for training."""
    pattern = ("train", "validation", "train", "train", "validation", "train")
    for photo in plan_photos(world, size, "herbarium19", pattern, PLANTS, "herbarium"):
        name = f"{photo.rank:03}{photo.turn:05}.jpg"
        take_photo(world, photo.scene, root / photo.split / str(photo.rank) / name)

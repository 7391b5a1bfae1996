"""What is in the plankton of the Finnish Environment Institute (SYKE), seen by an IFCB?

    label            the class folder's name
    scientific_name  the same with spaces, where it reads as a genus or species; most classes do
    class_in         both, train or val: the splits that show the class

Two published sets make the splits: SYKE-plankton_IFCB_2022 is for training, Utö 2021 for the
score. Their classes are not the same: three of five images of Utö could not be classified by the
experts and form a class that no training image shows. Ids come from the union of both. Class
folders hold stray PDFs. Images are grey.
"""

from __future__ import annotations

import re
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
    "labeled_20201020": "train",
    "val": "val",
    "phytoplankton_Utö_2021_labeled": "val",
}
"""The names by which the archives unpack are read too."""
PUBLISHED = {"train": 63_074, "val": 151_236}
_TAXON = re.compile(r"[A-Z][a-z]+([ _][a-z]{3,})?")
_ADDRESS = "https://b2share.eudat.eu/records"

INFO = Info(
    title="SYKE plankton: IFCB 2022 and Utö 2021",
    licence="stated on the page of each record",
    citation="Kraft, Velhonoja, Eerola, Suikkanen, Tamminen, Haraguchi, Ylöstalo, Kielosto, "
    "Johansson, Lensu, Kälviäinen, Haario, Seppälä. Towards operational phytoplankton recognition "
    "with automated high-throughput imaging, near-real-time data processing, and convolutional "
    "neural networks. Frontiers in Marine Science 9, 2022. doi:10.3389/fmars.2022.867695",
    homepage=f"{_ADDRESS}/xvnrp-7ga56",
    layout="ROOT/train/CLASS/*.png  (or ROOT/labeled_20201020)\n"
    "ROOT/val/CLASS/*.png  (or ROOT/phytoplankton_Utö_2021_labeled)",
    sources=(
        Source(
            url=f"{_ADDRESS}/xvnrp-7ga56/files/phytoplankton_labeled.zip",
            filename="phytoplankton_labeled.zip",
        ),
        Source(
            url=f"{_ADDRESS}/w7y96-6jd66/files/phytoplankton_Ut%C3%B6_2021_labeled.zip",
            filename="phytoplankton_Uto_2021_labeled.zip",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    return _table(root, list_class_folders(root, SPLIT_FOLDERS))


def check(root: Path) -> list[Finding]:
    """Counts, stray files, images without a class, classes of one split, unreadable images."""
    try:
        found = list_class_folders(root, SPLIT_FOLDERS)
        rows = _table(root, found)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *folder_findings(found),
        *published_findings(rows, PUBLISHED),
        *split_findings(root, rows, {"train": "train", "val": "val"}, unseen_level="note"),
        *class_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Grey pictures, a PDF among them; one class is for training only, one for the score only."""
    from fieldmark.data._plankton_make import write_plankton

    write_plankton(root, world, size)


def _table(root: Path, found: ClassFolders) -> pl.DataFrame:
    frame = found.frame()
    if frame.is_empty():
        raise DataError(
            f"{root}  holds no plankton images: expected ROOT/{{train,val}}/CLASS/*.png. "
            "`fieldmark datasets plankton` shows layout and sources."
        )
    names = {each: _taxon(each) for each in frame.get_column("class_folder").unique()}
    frame = frame.with_columns(
        label="class_folder",
        scientific_name=pl.col("class_folder").replace_strict(names, return_dtype=pl.String),
    )
    n_splits = pl.col("split").n_unique().over("label")
    frame = frame.with_columns(
        class_in=pl.when(n_splits > 1).then(pl.lit("both")).otherwise("split")
    )
    return finish_table(frame.drop("folder", "class_folder"), root)


def _taxon(folder: str) -> str | None:
    return folder.replace("_", " ") if _TAXON.fullmatch(folder) else None

"""Plankton of the Finnish Environment Institute (SYKE), seen by an IFCB.

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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import as_findings
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._make import plan_photos
from fieldmark.data.read.folders import (
    PublishedSize,
    class_folders,
    species_findings,
)
from fieldmark.world import Scene, write_photo

if TYPE_CHECKING:
    from fieldmark.world import World


SPLIT_FOLDERS = {
    "train": "train",
    "labeled_20201020": "train",
    "val": "val",
    "phytoplankton_Utö_2021_labeled": "val",
}
"""The names by which the archives unpack are read too."""
PUBLISHED = PublishedSize(
    n_images={"train": 63_074, "val": 151_236},
    folders={"train": "train", "val": "val"},
    unseen_level="note",
)
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
        Source(url=f"{_ADDRESS}/xvnrp-7ga56/files/phytoplankton_labeled.zip"),
        Source(
            url=f"{_ADDRESS}/w7y96-6jd66/files/phytoplankton_Ut%C3%B6_2021_labeled.zip",
            filename="phytoplankton_Uto_2021_labeled.zip",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    frame = class_folders(root, SPLIT_FOLDERS).frame(
        f"{root}  contains no plankton images: expected ROOT/{{train,val}}/CLASS/*.png. "
        "`fieldmark datasets plankton` shows layout and sources."
    )
    names = {
        folder: folder.replace("_", " ") if _TAXON.fullmatch(folder) else None
        for folder in frame.get_column("class_folder").unique()
    }
    frame = frame.with_columns(
        label="class_folder",
        scientific_name=pl.col("class_folder").replace_strict(names, return_dtype=pl.String),
    )
    n_splits = pl.col("split").n_unique().over("label")
    frame = frame.with_columns(
        class_in=pl.when(n_splits > 1).then(pl.lit("both")).otherwise("split")
    )
    return finish_table(frame.drop("folder", "class_folder"), root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, stray files, images without a class, classes of one split, unreadable images."""
    listed = class_folders(root, SPLIT_FOLDERS)
    return species_findings(root, listed, table(root), PUBLISHED)


PATTERN = ("train", "val", "train", "val", "val")
UNCLASSIFIED = "Unclassifiable"
"""Drops without an organism, in val only, as the published set has what no expert could name."""
PDF = b"%PDF-1.4\n%%EOF\n"


def make(root: Path, world: World, size: int) -> None:
    """Grey pictures, a PDF among them; one class is for training only, one for the score only.

    A tenth of the images are of the class that training does not know.
    """
    n_unclassified = max(2, size // 10)
    for photo in plan_photos(
        world, size - n_unclassified, "plankton", PATTERN, ("plankton",), "microscope"
    ):
        split = "train" if photo.rank == 1 else photo.split
        label = photo.species.scientific_name.replace(" ", "_")
        _write_grey(world, photo.scene, root / split / label / f"{label}_{photo.turn:05}.png")
        if photo.rank == 0 and photo.turn == 0:
            (root / split / label / "Read me.pdf").write_bytes(PDF)
        if photo.rank == 2 and photo.turn < n_unclassified:
            empty = replace(photo.scene, n_animals=0, burst=10_000 + photo.turn)
            name = f"{UNCLASSIFIED}_{photo.turn:05}.png"
            _write_grey(world, empty, root / "val" / UNCLASSIFIED / name)


def _write_grey(world: World, scene: Scene, path: Path) -> None:
    photo = world.photo(scene)
    write_photo(replace(photo, image=photo.image.convert("L")), path)

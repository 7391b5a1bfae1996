"""Birds 525: the folder dataset of bird species that was on Kaggle.

    label            the class folder's name, upper case: AMERICAN GOLDFINCH
    common_name      the same in lower case
    scientific_name  from ROOT/birds.csv, if it is there

Runs of spaces in folder names count as one, because published copies spell a few names in two
ways. Splits keep their meaning: `valid` is val, and test is test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import as_findings, named_findings
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._make import plan_photos, take_photo
from fieldmark.data.read.folders import (
    ClassFolders,
    PublishedSize,
    class_folders,
    species_findings,
)
from fieldmark.data.read.table import need_columns, read_table

if TYPE_CHECKING:
    from fieldmark.world import World

SPLIT_FOLDERS = {"train": "train", "valid": "val", "test": "test"}
NAMES_FILE = "birds.csv"
PUBLISHED = PublishedSize(
    n_images={"train": 84_635, "val": 2_625, "test": 2_625},
    folders={"train": "train", "val": "valid", "test": "test"},
    n_classes=525,
)

INFO = Info(
    title="Birds 525 Species",
    licence="CC0-1.0 as stated by its page, which is gone; photos came from web searches",
    citation="Piosenka, G. BIRDS 525 SPECIES - Image Classification. Kaggle, 2023",
    homepage="https://www.kaggle.com/datasets/gpiosenka/100-bird-species",
    layout="ROOT/train/CLASS NAME/*.jpg\nROOT/valid/CLASS NAME/*.jpg\nROOT/test/CLASS NAME/*.jpg\n"
    f"ROOT/{NAMES_FILE}  (optional: labels, scientific name)",
    sources=(
        Source(
            steps="The Kaggle page gpiosenka/100-bird-species is gone, and no address of the "
            "author's is known. If you or your group have the archive (100-bird-species.zip, "
            "version 525 species), unpack it so that ROOT has train, valid and test, each with "
            "525 folders. Then run `fieldmark data check birds525 ROOT`. Without it, inat21 "
            "has birds too."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    frame = class_folders(root, SPLIT_FOLDERS).frame(
        f"{root}  contains no images of Birds 525: expected ROOT/{{train,valid,test}}/CLASS "
        "NAME/*.jpg. `fieldmark datasets birds525` shows layout and sources."
    )
    labels = {folder: _label(folder) for folder in frame.get_column("class_folder").unique()}
    frame = frame.with_columns(label=pl.col("class_folder").replace_strict(labels))
    frame = frame.with_columns(common_name=pl.col("label").str.to_lowercase())
    frame = frame.join(_scientific_names(root), on="label", how="left", maintain_order="left")
    return finish_table(frame.drop("folder", "class_folder"), root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, stray files, names spelled in two ways, classes of one split, unreadable images."""
    listed = class_folders(root, SPLIT_FOLDERS)
    rows = table(root)
    return species_findings(root, listed, rows, PUBLISHED, _spelling_findings(listed))


def make(root: Path, world: World, size: int) -> None:
    """Birds under upper-case names, at least three for training and one for each other split."""
    rows: list[dict[str, object]] = []
    pattern = ("train", "valid", "test", "train", "train")
    for photo in plan_photos(world, size, "birds525", pattern, plans=("bird",)):
        label = photo.species.common_name.upper()
        path = f"{photo.split}/{label}/{photo.turn:03}.jpg"
        take_photo(world, photo.scene, root / path)
        rows.append(
            {
                "class id": float(photo.rank),
                "filepaths": path,
                "labels": label,
                "data set": photo.split,
                "scientific name": photo.species.scientific_name.upper(),
            }
        )
    pl.DataFrame(rows).write_csv(root / NAMES_FILE)


def _label(folder: str) -> str:
    return " ".join(folder.split()).upper()


def _scientific_names(root: Path) -> pl.DataFrame:
    """label, scientific_name: `Spinus tristis`."""
    path = root / NAMES_FILE
    columns = ("labels", "scientific name")
    if not path.is_file():
        return pl.DataFrame(schema={"label": pl.String, "scientific_name": pl.String})
    listed = read_table(path, columns)
    need_columns(path, listed.columns, columns)
    pairs = listed.select(columns).drop_nulls().unique("labels", keep="first", maintain_order=True)
    names = {_label(label): name.strip().capitalize() for label, name in pairs.rows()}
    return pl.DataFrame({"label": list(names), "scientific_name": list(names.values())})


def _spelling_findings(listed: ClassFolders) -> Iterator[Finding]:
    spellings: dict[str, set[str]] = {}
    for _, _, folder, _ in listed.parts:
        spellings.setdefault(_label(folder), set()).add(folder)
    twice = sorted(label for label, ways in spellings.items() if len(ways) > 1)
    yield from named_findings("note", twice, "class names spelled in two ways, read as one")

"""What is in Birds 525, the folder dataset of bird species that was on Kaggle?

    label            the class folder's name, upper case: AMERICAN GOLDFINCH
    common_name      the same in lower case
    scientific_name  from ROOT/birds.csv, if it is there

Runs of spaces in folder names count as one, because published copies spell a few names in two
ways. Splits keep their meaning: `valid` is val, and test is test.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import class_findings, image_findings, name_some
from fieldmark.data._class_folders import ClassFolders, folder_findings, list_class_folders
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._published import published_findings, split_findings
from fieldmark.data._read_table import read_table
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

SPLIT_FOLDERS = {"train": "train", "valid": "val", "test": "test"}
NAMES_FILE = "birds.csv"
PUBLISHED = {"train": 84_635, "val": 2_625, "test": 2_625}
N_CLASSES = 525

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
            "version 525 species), unpack it so that ROOT holds train, valid and test, each with "
            "525 folders. Then run `fieldmark data check birds525 ROOT`. Without it, inat21 "
            "has birds too."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    return _table(root, list_class_folders(root, SPLIT_FOLDERS))


def check(root: Path) -> list[Finding]:
    """Counts, stray files, names spelled in two ways, classes of one split, unreadable images."""
    try:
        found = list_class_folders(root, SPLIT_FOLDERS)
        rows = _table(root, found)
    except DataError as error:
        return [Finding("error", str(error))]
    folders = {split: folder for folder, split in SPLIT_FOLDERS.items()}
    return [
        *folder_findings(found),
        *_spelling_findings(found),
        *published_findings(rows, PUBLISHED, N_CLASSES),
        *split_findings(root, rows, folders),
        *class_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Birds under upper-case names, at least three for training and one for each other split."""
    from fieldmark.data._make import take_photo
    from fieldmark.data._portrait import portraits

    rows: list[dict[str, object]] = []
    pattern = ("train", "valid", "test", "train", "train")
    for each in portraits(world, size, "birds525", pattern, plans=("bird",)):
        label = each.species.common_name.upper()
        path = f"{each.split}/{label}/{each.turn:03}.jpg"
        take_photo(world, each.scene, root / path)
        rows.append(
            {
                "class id": float(each.rank),
                "filepaths": path,
                "labels": label,
                "data set": each.split,
                "scientific name": each.species.scientific_name.upper(),
            }
        )
    pl.DataFrame(rows).write_csv(root / NAMES_FILE)


def _table(root: Path, found: ClassFolders) -> pl.DataFrame:
    frame = found.frame()
    if frame.is_empty():
        raise DataError(
            f"{root}  holds no images of Birds 525: expected ROOT/{{train,valid,test}}/CLASS "
            "NAME/*.jpg. `fieldmark datasets birds525` shows layout and sources."
        )
    names = frame.get_column("class_folder").unique()
    labels = {each: _label(each) for each in names}
    frame = frame.with_columns(label=pl.col("class_folder").replace_strict(labels))
    frame = frame.with_columns(common_name=pl.col("label").str.to_lowercase())
    frame = frame.join(_scientific_names(root), on="label", how="left", maintain_order="left")
    return finish_table(frame.drop("folder", "class_folder"), root)


def _label(folder: str) -> str:
    return " ".join(folder.split()).upper()


def _scientific_names(root: Path) -> pl.DataFrame:
    """label, scientific_name: `Spinus tristis`."""
    path = root / NAMES_FILE
    wanted = ("labels", "scientific name")
    if not path.is_file():
        return pl.DataFrame(schema={"label": pl.String, "scientific_name": pl.String})
    listed = read_table(path, wanted)
    missing = [each for each in wanted if each not in listed.columns]
    if missing:
        raise DataError(f"{path}  lacks the columns {name_some(missing)}.")
    pairs = listed.select(wanted).drop_nulls().unique("labels", keep="first", maintain_order=True)
    told = {_label(label): name.strip().capitalize() for label, name in pairs.rows()}
    return pl.DataFrame({"label": list(told), "scientific_name": list(told.values())})


def _spelling_findings(found: ClassFolders) -> list[Finding]:
    spellings: dict[str, set[str]] = {}
    for _, _, folder, _ in found.parts:
        spellings.setdefault(_label(folder), set()).add(folder)
    twice = sorted(each for each, ways in spellings.items() if len(ways) > 1)
    if not twice:
        return []
    return [Finding("note", f"class names spelled in two ways, read as one: {name_some(twice)}.")]

"""What is in iNaturalist 2021?

A folder's name holds the seven ranks: `00000_Animalia_…_Lumbricus_terrestris`. In the table

    label            the species, `Lumbricus terrestris`
    kingdom … species   its ranks (species is the epithet), and scientific_name, both parts
    common_name      from val.json, train_mini.json or train.json, if one is in ROOT
    category         the folder's number
    folder           train_mini, train or val

Split train is the folder train_mini, or train where there is no train_mini; with both, the images
of train have the split train_full.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import class_findings, image_findings, name_some
from fieldmark.data._class_folders import ClassFolders, folder_findings, list_class_folders
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._published import published_findings, split_findings
from fieldmark.data._read_json import read_json_object
from fieldmark.data._unique_names import unique_names
from fieldmark.errors import DataError
from fieldmark.world import RANKS

if TYPE_CHECKING:
    from fieldmark.world import World

NAME_FILES = ("val.json", "train_mini.json", "train.json")
PUBLISHED = {"train": 500_000, "val": 100_000}
N_CLASSES = 10_000
_ADDRESS = "https://ml-inat-competition-datasets.s3.amazonaws.com/2021"

INFO = Info(
    title="iNaturalist 2021 (mini)",
    licence="non-commercial research and education; photos keep the licences of their authors",
    citation="Van Horn, Cole, Beery, Wilber, Belongie, Mac Aodha. Benchmarking Representation "
    "Learning for Natural World Image Collections. CVPR 2021. arXiv:2103.16483",
    homepage="https://github.com/visipedia/inat_comp/tree/master/2021",
    layout="ROOT/train_mini/00000_Kingdom_Phylum_Class_Order_Family_Genus_species/*.jpg\n"
    "ROOT/val/00000_Kingdom_Phylum_Class_Order_Family_Genus_species/*.jpg\n"
    "ROOT/train/…  (optional: all 2.7 million training images)\n"
    "ROOT/val.json  (optional: common names)",
    sources=(
        Source(
            url=f"{_ADDRESS}/train_mini.tar.gz",
            filename="train_mini.tar.gz",
            n_bytes=42_000_000_000,
            md5="db6ed8330e634445efc8fec83ae81442",
        ),
        Source(
            url=f"{_ADDRESS}/val.tar.gz",
            filename="val.tar.gz",
            n_bytes=8_931_661_582,
            md5="f6f6e0e242e3d4c9569ba56400938afc",
        ),
        Source(
            url=f"{_ADDRESS}/val.json.tar.gz",
            filename="val.json.tar.gz",
            kind="annotations",
            md5="4d761e0f6a86cc63e8f7afc91f6a8f0b",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    return _table(root, list_class_folders(root, _split_folders(root)))


def check(root: Path) -> list[Finding]:
    """Counts, stray files, classes of one split, missing names, unreadable images."""
    try:
        found = list_class_folders(root, _split_folders(root))
        rows = _table(root, found)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *folder_findings(found),
        *_variant_findings(rows),
        *published_findings(rows, PUBLISHED, N_CLASSES),
        *split_findings(root, rows, {"train": "train_mini", "val": "val"}),
        *class_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Species of all kinds, with both annotation files."""
    from fieldmark.data._inat21_make import write_inat21

    write_inat21(root, world, size)


def _split_folders(root: Path) -> dict[str, str]:
    has_mini = (root / "train_mini").is_dir()
    return {"train_mini": "train", "train": "train_full" if has_mini else "train", "val": "val"}


def _table(root: Path, found: ClassFolders) -> pl.DataFrame:
    frame = found.frame()
    if frame.is_empty():
        raise DataError(
            f"{root}  holds no images of iNaturalist 2021: expected ROOT/{{train_mini,val}}/"
            "00000_Kingdom_…_species/*.jpg. `fieldmark datasets inat21` shows layout and sources."
        )
    classes = _classes(root, frame.get_column("class_folder").unique().sort().to_list())
    frame = frame.join(classes, on="class_folder", how="left", maintain_order="left")
    return finish_table(frame.drop("class_folder"), root)


def _classes(root: Path, folders: list[str]) -> pl.DataFrame:
    """What each class folder's name says, and what the annotations call it."""
    parsed = {each: _parse(root, each) for each in folders}
    labels = unique_names(
        {each: f"{ranks['genus']} {ranks['species']}" for each, (_, ranks) in parsed.items()}
    )
    common = _common_names(root)
    rows = [
        {
            "class_folder": each,
            "label": labels[each],
            "category": number,
            **ranks,
            "scientific_name": f"{ranks['genus']} {ranks['species']}",
            "common_name": common.get(each),
        }
        for each, (number, ranks) in parsed.items()
    ]
    texts = ("class_folder", "label", *RANKS, "scientific_name", "common_name")
    schema = {**dict.fromkeys(texts, pl.String), "category": pl.Int64}
    return pl.DataFrame(rows, schema_overrides=schema)


def _parse(root: Path, folder: str) -> tuple[int, dict[str, str]]:
    number, *ranks = folder.split("_", len(RANKS))
    if len(ranks) != len(RANKS) or not number.isdecimal():
        raise DataError(
            f"{root}  class folder {folder!r} is not named as expected: a number and seven ranks, "
            "00000_Kingdom_Phylum_Class_Order_Family_Genus_species."
        )
    return int(number), dict(zip(RANKS, ranks, strict=True))


def _common_names(root: Path) -> dict[str, str]:
    """Class folder → common name. The smallest file first: all of them list every category."""
    path = next((root / each for each in NAME_FILES if (root / each).is_file()), None)
    if path is None:
        return {}
    categories = read_json_object(path, "annotations in COCO form").get("categories")
    if not isinstance(categories, list):
        raise DataError(f"{path}  has no list 'categories': expected a COCO file.")
    named = [each for each in categories if each.get("common_name")]
    return {str(each.get("image_dir_name")): str(each["common_name"]) for each in named}


def _variant_findings(rows: pl.DataFrame) -> list[Finding]:
    findings = []
    folders = set(rows.get_column("folder"))
    if "train" in folders and "train_mini" not in folders:
        text = "no train_mini: all of train is used, which is not the published mini protocol."
        findings.append(Finding("note", text))
    without = rows.filter(pl.col("common_name").is_null()).get_column("label").unique().sort()
    if len(without):
        n = f"{len(without):,} of {rows.get_column('label').n_unique():,} species"
        text = f"{n} without a common name: {name_some(without.to_list())}."
        findings.append(Finding("note", text))
    return findings

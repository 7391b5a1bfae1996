"""iNaturalist 2021 (mini): 10,000 species in folders that name their seven ranks.

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

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data._check import as_findings, named_findings
from fieldmark.data._dataset import Finding, Info, Source, finish_table, unique_names
from fieldmark.data._make import photo_key, plan_photos, take_photo
from fieldmark.data.read.folders import (
    PublishedSize,
    class_folders,
    species_findings,
)
from fieldmark.data.read.table import read_json_object
from fieldmark.errors import DataError
from fieldmark.taxa import RANKS

if TYPE_CHECKING:
    from fieldmark.world import Species, World


NAME_FILES = ("val.json", "train_mini.json", "train.json")
PUBLISHED = PublishedSize(
    n_images={"train": 500_000, "val": 100_000},
    folders={"train": "train_mini", "val": "val"},
    n_classes=10_000,
)
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
            n_bytes=42_000_000_000,
            md5="db6ed8330e634445efc8fec83ae81442",
        ),
        Source(
            url=f"{_ADDRESS}/val.tar.gz",
            n_bytes=8_931_661_582,
            md5="f6f6e0e242e3d4c9569ba56400938afc",
        ),
        Source(
            url=f"{_ADDRESS}/val.json.tar.gz",
            kind="annotations",
            md5="4d761e0f6a86cc63e8f7afc91f6a8f0b",
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    frame = class_folders(root, _split_folders(root)).frame(
        f"{root}  contains no images of iNaturalist 2021: expected ROOT/{{train_mini,val}}/"
        "00000_Kingdom_…_species/*.jpg. `fieldmark datasets inat21` shows layout and sources."
    )
    classes = _classes(root, frame.get_column("class_folder").unique().sort().to_list())
    frame = frame.join(classes, on="class_folder", how="left", maintain_order="left")
    return finish_table(frame.drop("class_folder"), root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, stray files, classes of one split, missing names, unreadable images."""
    listed = class_folders(root, _split_folders(root))
    rows = table(root)
    return species_findings(root, listed, rows, PUBLISHED, _variant_findings(rows))


def _split_folders(root: Path) -> dict[str, str]:
    has_mini = (root / "train_mini").is_dir()
    return {"train_mini": "train", "train": "train_full" if has_mini else "train", "val": "val"}


def _classes(root: Path, folders: list[str]) -> pl.DataFrame:
    """What each class folder's name says, and what the annotations call it."""
    parsed = {folder: _parse(root, folder) for folder in folders}
    names = {
        folder: f"{ranks['genus']} {ranks['species']}" for folder, (_, ranks) in parsed.items()
    }
    labels = unique_names(names)
    common = _common_names(root)
    rows = [
        {
            "class_folder": folder,
            "label": labels[folder],
            "category": number,
            **ranks,
            "scientific_name": names[folder],
            "common_name": common.get(folder),
        }
        for folder, (number, ranks) in parsed.items()
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
    path = next((root / name for name in NAME_FILES if (root / name).is_file()), None)
    if path is None:
        return {}
    categories = read_json_object(path, "annotations in COCO form").get("categories")
    if not isinstance(categories, list):
        raise DataError(f"{path}  has no list 'categories': expected a COCO file.")
    return {
        str(category.get("image_dir_name")): str(category["common_name"])
        for category in categories
        if category.get("common_name")
    }


def _variant_findings(rows: pl.DataFrame) -> Iterator[Finding]:
    folders = set(rows.get_column("folder"))
    if "train" in folders and "train_mini" not in folders:
        text = "no train_mini: all of train is used, which is not the published mini protocol."
        yield Finding("note", text)
    without = rows.filter(pl.col("common_name").is_null()).get_column("label").unique().sort()
    n = f"{len(without):,} of {rows.get_column('label').n_unique():,} species"
    yield from named_findings("note", without, f"{n} without a common name")


# --- making ---

PATTERN = ("train_mini", "val", "train_mini", "train_mini", "val", "train_mini")


def make(root: Path, world: World, size: int) -> None:
    """Species of all kinds in folders, and the annotation file of each split."""
    content: dict[str, dict[str, Any]] = {"train_mini": _empty(), "val": _empty()}
    for number, photo in enumerate(plan_photos(world, size, "inat21", PATTERN)):
        name = photo_key(world, "inat21", photo.rank, photo.turn)
        path = f"{photo.split}/{folder_name(photo.rank, photo.species)}/{name}.jpg"
        extent = take_photo(world, photo.scene, root / path)
        part = content[photo.split]
        part["images"].append(_image(number, path, extent))
        part["annotations"].append({"id": number, "image_id": number, "category_id": photo.rank})
        if photo.turn == 0:
            for whole in content.values():
                species = photo.species
                whole["categories"].append(
                    {
                        "id": photo.rank,
                        "name": species.scientific_name,
                        "common_name": species.common_name,
                        "supercategory": species.ranks["class"],
                        **{rank: species.ranks[rank] for rank in RANKS[:-1]},
                        "specific_epithet": species.ranks["species"],
                        "image_dir_name": folder_name(photo.rank, species),
                    }
                )
    for split, part in content.items():
        (root / f"{split}.json").write_text(json.dumps(part), encoding="utf-8")


def folder_name(number: int, species: Species) -> str:
    """`00000_Kingdom_Phylum_Class_Order_Family_Genus_species`."""
    return "_".join([f"{number:05}", *(species.ranks[rank] for rank in RANKS)])


def _empty() -> dict[str, Any]:
    info = {"year": 2021, "description": "made by fieldmark"}
    return {"info": info, "images": [], "categories": [], "annotations": [], "licenses": []}


def _image(number: int, path: str, extent: tuple[int, int]) -> dict[str, Any]:
    return {
        "id": number,
        "width": extent[0],
        "height": extent[1],
        "file_name": path,
        "license": 0,
        "rights_holder": "fieldmark",
        "date": "2020-06-01 12:00:00+00:00",
        "latitude": None,
        "longitude": None,
        "location_uncertainty": None,
    }

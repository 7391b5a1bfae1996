"""How does the synthetic world write an iNaturalist 2021 of its own?"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from fieldmark.data._make import take_photo
from fieldmark.data._portrait import Portrait, portraits
from fieldmark.draws import digest
from fieldmark.world import RANKS, Species, World

PATTERN = ("train_mini", "val", "train_mini", "train_mini", "val", "train_mini")


def write_inat21(root: Path, world: World, size: int) -> None:
    """Folders of species and the annotation file of each split."""
    content: dict[str, dict[str, Any]] = {}
    for number, each in enumerate(portraits(world, size, "inat21", PATTERN)):
        name = uuid.UUID(bytes=digest(world.seed, "inat21", each.rank, each.turn))
        path = f"{each.split}/{folder_name(each.rank, each.species)}/{name}.jpg"
        extent = take_photo(world, each.scene, root / path)
        part = content.setdefault(each.split, _empty())
        part["images"].append(_image(number, path, extent))
        part["annotations"].append({"id": number, "image_id": number, "category_id": each.rank})
        for whole in (content.setdefault(split, _empty()) for split in ("train_mini", "val")):
            if each.turn == 0:
                whole["categories"].append(_category(each))
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


def _category(each: Portrait) -> dict[str, Any]:
    species = each.species
    return {
        "id": each.rank,
        "name": species.scientific_name,
        "common_name": species.common_name,
        "supercategory": species.ranks["class"],
        **{rank: species.ranks[rank] for rank in RANKS[:-1]},
        "specific_epithet": species.ranks["species"],
        "image_dir_name": folder_name(each.rank, species),
    }

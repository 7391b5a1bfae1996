"""How does the synthetic world write a re-identification dataset of Wild Me?

Individuals of one species, a fifth of them seen once, the others on several days with up to four
shots each; a few annotations name nobody. `metadata.csv` holds a closed-set split like the
published ones, where unknown animals have no split.
"""

from __future__ import annotations

import csv
import json
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fieldmark.data._coco import ANNOTATIONS, IMAGES, METADATA, UNKNOWN, Coco
from fieldmark.data._make import need_species, pick, species_like
from fieldmark.draws import digest
from fieldmark.world import Scene, World, write_photo

VIEWPOINTS = ("top", "left", "right")
LEAST_BOX_PX = 48
_FIRST_DAY = datetime(2016, 6, 1, 8, 0, 0)
_BUILDS = {"beluga": ("beluga", "whale", "mammal"), "leopard": ("cat", "mammal")}
_CATEGORIES = {"beluga": "beluga_whale", "leopard": "leopard"}
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Sighting:
    individual: int
    is_known: bool
    encounter: int
    shot: int
    date: datetime


def write_coco(root: Path, world: World, size: int, coco: Coco) -> None:
    """Annotations, images and the closed-set split; exactly `size` images, but at least twelve."""
    need_species(world, coco.name)
    species = species_like(world, *_BUILDS[coco.name])[0]
    images: list[dict[str, Any]] = []
    animals: list[dict[str, Any]] = []
    for number, seen in enumerate(_sightings(world.seed, max(12, size), coco.name)):
        scene = Scene(
            species=species, individual=seen.individual, burst=seen.encounter, shot=seen.shot
        )
        photo = world.photo(scene)
        name = f"{number + 1:012}_{number}.jpg"
        write_photo(photo, root / coco.homes[0] / IMAGES / name)
        whole = photo.image.size
        date = seen.date.strftime("%Y-%m-%d %H:%M:%S") if coco.has_dates else "NA"
        images.append(_image(number, name, whole, date))
        viewpoint = VIEWPOINTS[pick(3, world.seed, coco.name, "viewpoint", seen.encounter)]
        box = (0, 0, *whole) if coco.is_cut else _box(photo.truth, whole)
        individual = _name(coco, world.seed, seen.individual) if seen.is_known else UNKNOWN
        animals.append(_annotation(number, individual, box, viewpoint))
    _write_json(root, coco, images, animals)
    _write_split(root, coco, images, animals)


def _name(coco: Coco, seed: int, individual: int) -> str:
    if coco.name == "beluga":
        return f"whale{individual:03}"
    return str(uuid.UUID(bytes=digest(seed, coco.name, "name", individual)))


def _box(truth: dict[str, Any], whole: tuple[int, int]) -> Box:
    """The animal's box, made wide enough to hold a picture and kept inside the photo."""
    left, width = _span(truth["box_x"], truth["box_width"], whole[0])
    top, height = _span(truth["box_y"], truth["box_height"], whole[1])
    return left, top, width, height


def _span(start: int, length: int, whole: int) -> tuple[int, int]:
    wide = min(whole, max(LEAST_BOX_PX, length))
    begin = start - (wide - length) // 2
    return min(max(0, begin), whole - wide), wide


def _sightings(seed: int, size: int, name: str) -> list[_Sighting]:
    """Individual by individual until there are enough."""
    found: list[_Sighting] = []
    individual = 0
    while len(found) < size:
        is_known = individual % 40 != 3
        is_single = individual % 5 == 4 or not is_known
        n_encounters = 1 if is_single else 2 + pick(3, seed, name, "encounters", individual)
        for turn in range(n_encounters):
            day = pick(1100, seed, name, "day", individual, turn)
            start = _FIRST_DAY + timedelta(days=day, minutes=7 * individual % 600)
            n_shots = 1 if is_single else 1 + pick(4, seed, name, "shots", individual, turn)
            found += [
                _Sighting(
                    individual,
                    is_known,
                    1000 * individual + turn,
                    shot,
                    start + timedelta(seconds=9 * shot),
                )
                for shot in range(n_shots)
            ]
        individual += 1
    order = sorted(range(len(found)), key=lambda each: pick(1 << 40, seed, name, "order", each))
    return [found[each] for each in order if each < size]


def _image(number: int, name: str, size: tuple[int, int], date: str) -> dict[str, Any]:
    return {
        "id": number,
        "file_name": name,
        "width": size[0],
        "height": size[1],
        "date_captured": date,
        "license": 1,
    }


def _annotation(number: int, name: str, box: Box, viewpoint: str) -> dict[str, Any]:
    x, y, width, height = box
    right, bottom = x + width, y + height
    return {
        "id": number,
        "image_id": number,
        "category_id": 0,
        "name": name,
        "viewpoint": viewpoint,
        "bbox": [x, y, width, height],
        "area": width * height,
        "segmentation": [[x, y, right, y, right, bottom, x, bottom]],
        "iscrowd": 0,
    }


def _write_json(
    root: Path, coco: Coco, images: list[dict[str, Any]], animals: list[dict[str, Any]]
) -> None:
    content = {
        "info": {"description": "made by fieldmark", "year": 2022},
        "licenses": [{"id": 1, "name": "CC0"}],
        "categories": [{"id": 0, "name": _CATEGORIES[coco.name], "supercategory": "animal"}],
        "images": images,
        "annotations": animals,
    }
    path = root / coco.homes[0] / ANNOTATIONS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _write_split(
    root: Path, coco: Coco, images: list[dict[str, Any]], animals: list[dict[str, Any]]
) -> None:
    """Every fifth photo of an individual that has several is for the test."""
    seen: dict[str, int] = {}
    dates = ("date",) if coco.has_dates else ()
    rows: list[tuple[object, ...]] = [("", "image_id", "identity", "path", *dates, "split")]
    for number, (image, animal) in enumerate(zip(images, animals, strict=True)):
        name = str(animal["name"])
        seen[name] = seen.get(name, 0) + 1
        split = "test" if seen[name] % 5 == 2 else "train"
        path = f"{coco.homes[0]}/{IMAGES}/{image['file_name']}"
        told = ("unknown", path) if name == UNKNOWN else (name, path)
        date = (image["date_captured"],) if coco.has_dates else ()
        rows.append((number, number, *told, *date, "" if name == UNKNOWN else split))
    with (root / METADATA).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)

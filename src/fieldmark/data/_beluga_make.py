"""How does the synthetic world write a BelugaID of its own?

Individuals of one species, a fifth of them seen once, the others on several days with up to four
shots each; a few annotations name nobody. `metadata.csv` holds a closed-set split like the
published one.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fieldmark.data._make import need_species, pick, species_like, take_photo
from fieldmark.data.beluga import ANNOTATIONS, HOMES, IMAGES, METADATA, UNKNOWN
from fieldmark.data.world import Scene, World

HOME = HOMES[0]
VIEWPOINTS = ("top", "left", "right")
_FIRST_DAY = datetime(2016, 6, 1, 8, 0, 0)


@dataclass(frozen=True, slots=True)
class _Sighting:
    individual: int
    is_known: bool
    encounter: int
    shot: int
    date: datetime


def write_beluga(root: Path, world: World, size: int) -> None:
    """Annotations, images and the closed-set split; exactly `size` images, but at least twelve."""
    need_species(world, "beluga")
    species = species_like(world, "beluga", "whale", "mammal")[0]
    images: list[dict[str, Any]] = []
    whales: list[dict[str, Any]] = []
    for number, seen in enumerate(_sightings(world.seed, max(12, size))):
        scene = Scene(
            species=species, individual=seen.individual, burst=seen.encounter, shot=seen.shot
        )
        name = f"{number + 1:012}_{number}.jpg"
        width, height = take_photo(world, scene, root / HOME / IMAGES / name)
        images.append(_image(number, name, (width, height), seen.date))
        viewpoint = VIEWPOINTS[pick(3, world.seed, "beluga", "viewpoint", seen.encounter)]
        whales.append(_annotation(number, seen, (width, height), viewpoint))
    _write_json(root, images, whales)
    _write_split(root, images, whales)


def _sightings(seed: int, size: int) -> list[_Sighting]:
    """Individual by individual until there are enough."""
    found: list[_Sighting] = []
    individual = 0
    while len(found) < size:
        is_known = individual % 40 != 3
        is_single = individual % 5 == 4 or not is_known
        n_encounters = 1 if is_single else 2 + pick(3, seed, "beluga", "encounters", individual)
        for turn in range(n_encounters):
            day = pick(1100, seed, "beluga", "day", individual, turn)
            start = _FIRST_DAY + timedelta(days=day, minutes=7 * individual % 600)
            n_shots = 1 if is_single else 1 + pick(4, seed, "beluga", "shots", individual, turn)
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
    order = sorted(range(len(found)), key=lambda each: pick(1 << 40, seed, "beluga", "order", each))
    return [found[each] for each in order if each < size]


def _image(number: int, name: str, size: tuple[int, int], date: datetime) -> dict[str, Any]:
    return {
        "id": number,
        "file_name": name,
        "width": size[0],
        "height": size[1],
        "date_captured": date.strftime("%Y-%m-%d %H:%M:%S"),
        "license": 1,
    }


def _annotation(
    number: int, seen: _Sighting, size: tuple[int, int], viewpoint: str
) -> dict[str, Any]:
    width, height = size
    return {
        "id": number,
        "image_id": number,
        "category_id": 0,
        "name": f"whale{seen.individual:03}" if seen.is_known else UNKNOWN,
        "viewpoint": viewpoint,
        "bbox": [0, 0, width, height],
        "area": width * height,
        "segmentation": [[0, 0, width, 0, width, height, 0, height]],
        "iscrowd": 0,
    }


def _write_json(root: Path, images: list[dict[str, Any]], whales: list[dict[str, Any]]) -> None:
    content = {
        "info": {"description": "made by fieldmark", "year": 2022},
        "licenses": [{"id": 1, "name": "CC0"}],
        "categories": [{"id": 0, "name": "beluga_whale", "supercategory": "animal"}],
        "images": images,
        "annotations": whales,
    }
    path = root / HOME / ANNOTATIONS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _write_split(root: Path, images: list[dict[str, Any]], whales: list[dict[str, Any]]) -> None:
    """Every fifth photo of an individual that has several is for the test."""
    seen: dict[str, int] = {}
    rows: list[tuple[object, ...]] = []
    for number, (image, whale) in enumerate(zip(images, whales, strict=True)):
        name = str(whale["name"])
        seen[name] = seen.get(name, 0) + 1
        split = "test" if seen[name] % 5 == 2 else "train"
        path = f"{HOME}/{IMAGES}/{image['file_name']}"
        rows.append((number, number, name, path, image["date_captured"], split))
    with (root / METADATA).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("", "image_id", "identity", "path", "date", "split"), *rows])

"""How does the synthetic world write a Pl@ntNet-300K of its own?"""

from __future__ import annotations

import json
from pathlib import Path

from fieldmark.data._make import take_photo
from fieldmark.data._portrait import PLANTS, Portrait, portraits
from fieldmark.data.plantnet import INDEX, METADATA, NAMES
from fieldmark.draws import digest
from fieldmark.world import World

PATTERN = ("train", "val", "test", "train", "train", "train")
ORGANS = ("leaf", "flower", "habit", "fruit", "bark")
FIRST_ID = 1_355_868


def write_plantnet(root: Path, world: World, size: int) -> None:
    """Images, and the three JSON files that explain them."""
    facts: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for each in portraits(world, size, "plantnet", PATTERN, PLANTS):
        key = str(FIRST_ID + 13 * each.rank)
        names[key] = f"{each.species.scientific_name} L."
        name = digest(world.seed, "plantnet", each.rank, each.turn).hex()
        take_photo(world, each.scene, root / "images" / each.split / key / f"{name}.jpg")
        facts[name] = _facts(each, key)
    index = {str(number): key for number, key in enumerate(sorted(names))}
    for path, content in ((METADATA, facts), (NAMES, names), (INDEX, index)):
        (root / path).write_text(json.dumps(content), encoding="utf-8")


def _facts(each: Portrait, key: str) -> dict[str, str]:
    # The last two training photos of each round are of one plant.
    observation = each.turn - (each.turn % len(PATTERN) == len(PATTERN) - 1)
    return {
        "obs_id": str(1_000_000 + 1_000 * each.rank + observation),
        "species_id": key,
        "organ": ORGANS[each.turn % len(ORGANS)],
        "author": "fieldmark",
        "license": "cc0",
        "split": each.split,
    }

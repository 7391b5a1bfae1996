"""How does the synthetic world write a Rare Species of its own?"""

from __future__ import annotations

import uuid
from pathlib import Path

import polars as pl

from fieldmark.data._hub_parquet import write_part
from fieldmark.data._portrait import Portrait, encode, portraits
from fieldmark.draws import digest
from fieldmark.world import RANKS, World

PHOTOS_A_SPECIES = 7
"""Five for training and two to ask about."""
N_FILES = 2
ANIMALS = ("bird", "mammal", "fish", "lizard", "butterfly", "beetle", "spider", "whale")


def write_rarespecies(root: Path, world: World, size: int) -> None:
    """Files as the hub converts them, `default/train/0000.parquet`."""
    pattern = ("train",) * PHOTOS_A_SPECIES
    rows = [_row(world, each) for each in portraits(world, size, "rarespecies", pattern, ANIMALS)]
    length = -(-len(rows) // N_FILES)
    for number in range(N_FILES):
        part = rows[number * length : (number + 1) * length]
        write_part(root / "default" / "train" / f"{number:04}.parquet", pl.DataFrame(part))


def _row(world: World, each: Portrait) -> dict[str, object]:
    species = each.species
    number = 100_000 + 1_000 * each.rank + each.turn
    name = f"{number}_{100 + each.rank}_eol-full-size-copy.jpg"
    folder = "-".join(species.ranks[rank] for rank in RANKS)
    return {
        "image": {"bytes": encode(world, each.scene), "path": name},
        "rarespecies_id": str(uuid.UUID(bytes=digest(world.seed, "rarespecies", number))),
        "eol_content_id": number,
        "eol_page_id": 100 + each.rank,
        **{rank: species.ranks[rank] for rank in RANKS},
        "sciName": species.scientific_name,
        "common": species.common_name,
        "file_name": f"dataset/{folder}/{name}",
    }

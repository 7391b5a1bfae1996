"""How does the synthetic world write an ImageNet-1K of its own?"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fieldmark.data._hub_parquet import write_part
from fieldmark.data._portrait import Portrait, encode, portraits
from fieldmark.world import World

PATTERN = ("train", "validation", "train", "train", "validation", "train")
N_FILES = {"train": 2, "validation": 1}
FIRST_WNID = 1_440_764


def write_imagenet(root: Path, world: World, size: int) -> None:
    """Rows of a split are spread over its files; names stand in each file's metadata."""
    rows: dict[str, list[dict[str, object]]] = {}
    names: dict[int, str] = {}
    for each in portraits(world, size, "imagenet1k", PATTERN):
        names[each.rank] = f"{each.species.common_name}, {each.species.scientific_name}"
        rows.setdefault(each.split, []).append(_row(world, each))
    ordered = [names[each] for each in sorted(names)]
    for split, n_files in N_FILES.items():
        for number in range(n_files):
            path = root / "data" / f"{split}-{number:05}-of-{n_files:05}.parquet"
            write_part(path, pl.DataFrame(rows[split][number::n_files]), ordered)


def _row(world: World, each: Portrait) -> dict[str, object]:
    wnid = f"n{FIRST_WNID + each.rank:08}"
    name = f"{wnid}_{each.turn}.JPEG"
    return {"image": {"bytes": encode(world, each.scene), "path": name}, "label": each.rank}

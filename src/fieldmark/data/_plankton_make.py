"""How does the synthetic world write SYKE plankton of its own?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fieldmark.data._portrait import portraits
from fieldmark.world import Photo, Scene, World, write_photo

PATTERN = ("train", "val", "train", "val", "val")
UNCLASSIFIED = "Unclassifiable"
"""Drops without an organism, in val only, as the published set has what no expert could name."""
PDF = b"%PDF-1.4\n%%EOF\n"


def write_plankton(root: Path, world: World, size: int) -> None:
    """About `size` images; a tenth of them are of the class that training does not know."""
    n_unclassified = max(2, size // 10)
    planned = portraits(
        world, size - n_unclassified, "plankton", PATTERN, ("plankton",), "microscope"
    )
    for each in planned:
        split = "train" if each.rank == 1 else each.split
        label = each.species.scientific_name.replace(" ", "_")
        _write_grey(world, each.scene, root / split / label / f"{label}_{each.turn:05}.png")
        if each.rank == 0 and each.turn == 0:
            (root / split / label / "Read me.pdf").write_bytes(PDF)
        if each.rank == 2 and each.turn < n_unclassified:
            empty = replace(each.scene, n_animals=0, burst=10_000 + each.turn)
            name = f"{UNCLASSIFIED}_{each.turn:05}.png"
            _write_grey(world, empty, root / "val" / UNCLASSIFIED / name)


def _write_grey(world: World, scene: Scene, path: Path) -> None:
    photo = world.photo(scene)
    write_photo(Photo(photo.image.convert("L"), photo.truth), path)

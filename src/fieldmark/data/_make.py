"""What do the makers of synthetic copies have in common?

Choosing species by their build, and one place where photos are taken and written. Nothing here
draws: the pixels are the world's.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from fieldmark.draws import number
from fieldmark.errors import UsageError
from fieldmark.world import Scene, World, write_photo

PHOTOS_A_SPECIES = 6
LEAST_SPECIES = 4
"""With fewer, no two-class task could be made."""


def take_photo(world: World, scene: Scene, path: Path) -> tuple[int, int]:
    """Writes one photo; answers its width and height."""
    photo = world.photo(scene)
    write_photo(photo, path)
    width, height = photo.image.size
    return width, height


def pick(n: int, *parts: object) -> int:
    """A whole number below n that stands for the parts."""
    return number(*parts) % n


def need_species(world: World, name: str) -> None:
    if len(world.species) < LEAST_SPECIES:
        raise UsageError(
            f"dataset {name!r} cannot be made in a world of {len(world.species)} species: "
            f"expected at least {LEAST_SPECIES}."
        )


def species_like(world: World, *builds: str) -> list[int]:
    """Indices of species by kind or body plan: of the first build that has any, else all."""
    for build in builds:
        found = [
            each.index
            for each in world.species
            if build in (each.traits["kind"], each.traits["body_plan"])
        ]
        if found:
            return found
    return [each.index for each in world.species]


def sisters(world: World, *builds: str) -> list[tuple[int, int]]:
    """Pairs of species that are hard to tell apart: of one genus, else of one build, else any."""
    for build in (*builds, ""):
        pool = species_like(world, build)
        genera = [world.species[each].ranks["genus"] for each in pool]
        pairs = [
            (pool[i], pool[j])
            for i in range(len(pool))
            for j in range(i + 1, len(pool))
            if genera[i] == genera[j]
        ]
        if pairs:
            return pairs
    return [(0, 1)]


def write_folders(root: Path, world: World, size: int) -> None:
    """ROOT/{train,test}/SPECIES/*.jpg, by scientific name."""
    need_species(world, "folder")
    for turn, scene in _portraits(world, size):
        name = world.species[scene.species].scientific_name
        take_photo(world, scene, root / _split(turn) / name / f"{turn:04}.jpg")


def write_listed(root: Path, world: World, size: int) -> None:
    """ROOT/labels.csv and ROOT/images, photos of a few fixed cameras."""
    need_species(world, "csv")
    rows: list[tuple[str, ...]] = [("image", "species", "camera", "split")]
    for turn, scene in _portraits(world, size, n_cameras=8):
        name = f"{scene.species:03}-{turn:04}.jpg"
        take_photo(world, scene, root / "images" / name)
        species = world.species[scene.species].scientific_name
        rows.append((name, species, f"camera {scene.camera}", _split(turn)))
    with (root / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _split(turn: int) -> str:
    return "test" if turn % 3 == 2 else "train"


def _portraits(world: World, size: int, n_cameras: int = 0) -> Iterator[tuple[int, Scene]]:
    """Each photo of a species with its number; an encounter of its own, at least six a species."""
    n_species = max(LEAST_SPECIES, min(len(world.species), size // PHOTOS_A_SPECIES))
    for each in range(max(size, PHOTOS_A_SPECIES * n_species)):
        turn, species = divmod(each, n_species)
        camera = pick(n_cameras, world.seed, "portrait", each) if n_cameras else None
        yield turn, Scene(species=species, individual=turn, burst=each, camera=camera)

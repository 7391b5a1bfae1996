"""Synthetic copies: what the makers of all datasets have in common.

Choosing species by their build, planning photos, and one place where they are taken and written.
Nothing here draws: the pixels are the world's.
"""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark import draws
from fieldmark.errors import UsageError
from fieldmark.world import Scene, write_photo

if TYPE_CHECKING:
    from fieldmark.world import Species, World

LEAST_SPECIES = 4
"""With fewer, no two-class task could be made."""
PLANTS = ("herb", "tree")


def take_photo(world: World, scene: Scene, path: Path) -> tuple[int, int]:
    """Writes one photo; answers its width and height."""
    photo = world.photo(scene)
    write_photo(photo, path)
    width, height = photo.image.size
    return width, height


def encode_photo(world: World, scene: Scene) -> bytes:
    """A photo as the bytes of a JPEG file, for datasets that keep images inside tables."""
    buffer = io.BytesIO()
    world.photo(scene).image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


TableRow = Sequence[object] | Mapping[str, object]


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[TableRow], separator: str = ","
) -> None:
    """A table file; no header line when the header is empty. None is written as nothing.

    A row that is a mapping is written in the order of the header.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerows([list(header)] if header else [])
        for row in rows:
            fields = [row.get(name) for name in header] if isinstance(row, Mapping) else row
            writer.writerow(fields)


def pick(n: int, *parts: object) -> int:
    """A whole number below n that stands for the parts."""
    return draws.number(*parts) % n


def photo_key(world: World, *parts: object) -> uuid.UUID:
    """What a photo is named after."""
    return uuid.UUID(bytes=draws.digest(world.seed, *parts))


# --- species ---


def need_species(world: World, name: str) -> None:
    if len(world.species) < LEAST_SPECIES:
        raise UsageError(
            f"dataset {name!r} cannot be made in a world of {len(world.species)} species: "
            f"expected at least {LEAST_SPECIES}."
        )


def _built_like(world: World, build: str) -> list[int]:
    return [
        species.index
        for species in world.species
        if build in (species.traits["kind"], species.traits["body_plan"])
    ]


def species_like(world: World, *builds: str) -> list[int]:
    """Indices of species by kind or body plan: of the first build that has any, else all."""
    for build in builds:
        if indices := _built_like(world, build):
            return indices
    return [species.index for species in world.species]


def species_pool(world: World, name: str, least: int, *builds: str) -> list[int]:
    """Species of the builds, the first build first; others only where these are fewer than `least`.

    Never more than the world has.
    """
    need_species(world, name)
    fitting = dict.fromkeys(index for build in builds for index in _built_like(world, build))
    rest = [species.index for species in world.species if species.index not in fitting]
    return [*fitting, *rest[: max(0, least - len(fitting))]]


def sisters(world: World, *builds: str) -> list[tuple[int, int]]:
    """Pairs of species that are hard to tell apart: of one genus, else of one build, else any."""
    for build in (*builds, ""):
        pool = species_like(world, build)
        genera = [world.species[index].ranks["genus"] for index in pool]
        pairs = [
            (pool[i], pool[j])
            for i in range(len(pool))
            for j in range(i + 1, len(pool))
            if genera[i] == genera[j]
        ]
        if pairs:
            return pairs
    return [(0, 1)]


def both_answers(truth: dict[int, bool], *draw: object) -> dict[int, bool]:
    """The truth where species differ in it; else half of the species, drawn, are given the trait.

    A trait that all species share could be neither learnt nor scored.
    """
    if len(set(truth.values())) == 2:
        return truth
    chosen = set(draws.shuffled([str(index) for index in truth], *draw)[: len(truth) // 2])
    return {index: str(index) in chosen for index in truth}


# --- clips ---

CLIP_SPLITS = ("train", "train", "test")
"""where the clips of a behaviour go, in turn"""


def clip_scene(world: World, name: str, number: int, pool: list[int], is_test: bool) -> Scene:
    """Who is filmed where: a clip is one burst, its frames the moments of one behaviour.

    Even individuals are for training, odd ones for the test.
    """
    species = pool[pick(len(pool), world.seed, name, "species", number)]
    return Scene(species=species, individual=2 * number + is_test, burst=number)


# --- photos of species ---


@dataclass(frozen=True, slots=True)
class PlannedPhoto:
    """One photo of a species dataset, still to be taken."""

    species: Species
    rank: int
    """number of the species within the dataset"""
    turn: int
    """number of the photo within its species"""
    split: str
    scene: Scene


def plan_photos(
    world: World,
    size: int,
    dataset: str,
    pattern: Sequence[str],
    plans: Sequence[str] = (),
    condition: str = "day",
) -> Iterator[PlannedPhoto]:
    """About `size` photos, species in turn; each goes through the pattern of splits at least once.

    Every photo is another individual in an encounter of its own. `plans` are the body plans to
    show; others fill up where the world has too few of them.
    """
    n_least = LEAST_SPECIES if plans else len(world.species)
    pool = [world.species[index] for index in species_pool(world, dataset, n_least, *plans)]
    chosen = pool[: max(LEAST_SPECIES, min(len(pool), size // len(pattern)))]
    for number in range(max(size, len(pattern) * len(chosen))):
        turn, rank = divmod(number, len(chosen))
        scene = Scene(
            species=chosen[rank].index, individual=turn, burst=number, condition=condition
        )
        yield PlannedPhoto(chosen[rank], rank, turn, pattern[turn % len(pattern)], scene)

"""The synthetic world to train on: photos of hundreds of species, some of which nobody has seen.

    ROOT/photos.csv     a row a photo: id, image, split, label, unit, names, looks, captions, truth
    ROOT/images/*.jpg

`train` and `test` are photos of the same species, of other encounters. `unseen` are all photos of
species that occur nowhere else: all but the first of every third genus, so that genus, colours and
words for marks can be known, and the species cannot. Photos differ in what the
animals do, how many they are, how old, where, and in how well they were taken. A larger dataset has
more species until there are 480, then more photos of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fieldmark.data._dataset import Info
from fieldmark.data._make import pick
from fieldmark.data.sets.world import INFO as WORLD
from fieldmark.data.sets.world import CollectionPhoto, check, table, write_collection
from fieldmark.world import Scene

if TYPE_CHECKING:
    from fieldmark.world import Species, World

__all__ = ["INFO", "check", "make", "table"]

INFO = Info(
    title="The synthetic natural world, to train on",
    licence=WORLD.licence,
    citation=WORLD.citation,
    layout=WORLD.layout,
)
MOST_SPECIES = 480
_LEAST_SPECIES = 12
_PHOTOS_A_SPECIES = 12
_EACH_NTH_GENUS = 3
"""has species that are held out"""
_EACH_NTH_PHOTO = 8
"""of the other species is for the test"""
_CONDITIONS = ("day",) * 9 + ("night", "blurred", "occluded")
_COUNTS = (1, 1, 1, 1, 2, 3)
_AGES = ("adult",) * 5 + ("juvenile",)


def make(root: Path, world: World, size: int) -> None:
    """Writes about `size` photos of a larger world that begins with the species of this one."""
    from fieldmark.world import World as Larger

    n_species = min(MOST_SPECIES, max(_LEAST_SPECIES, size // _PHOTOS_A_SPECIES))
    larger = Larger(seed=world.seed, n_species=n_species, difficulty=world.difficulty)
    write_collection(root, larger, _plan(larger, size))


def _plan(world: World, size: int) -> Iterator[CollectionPhoto]:
    held_out = _held_out(world)
    for turn in range(max(4, round(size / len(world.species)))):
        for species in world.species:
            split = "test" if turn % _EACH_NTH_PHOTO == 3 else "train"
            if species.index in held_out:
                split = "unseen"
            scene = _scene(world.seed, species, turn)
            yield CollectionPhoto("photo", split, "scientific_name", scene)


def _held_out(world: World) -> set[int]:
    """All but the first species of every third genus that has several."""
    genera: dict[str, list[int]] = {}
    for species in world.species:
        genera.setdefault(species.ranks["genus"], []).append(species.index)
    several = [indices for indices in genera.values() if len(indices) > 1]
    return {index for indices in several[1::_EACH_NTH_GENUS] for index in indices[1:]}


def _scene(seed: int, species: Species, turn: int) -> Scene:
    """An encounter with animals that no other photo shows; drawn by hash."""

    def draw(kind: str, n: int) -> int:
        return pick(n, seed, "world_train", kind, species.index, turn)

    behaviours = species.plan.behaviours
    return Scene(
        species.index,
        individual=turn,
        burst=turn,
        frame=draw("frame", 8),
        stage=_AGES[draw("stage", len(_AGES))],
        behaviour=behaviours[draw("behaviour", len(behaviours))],
        condition=_CONDITIONS[draw("condition", len(_CONDITIONS))],
        n_animals=_COUNTS[draw("count", len(_COUNTS))],
    )

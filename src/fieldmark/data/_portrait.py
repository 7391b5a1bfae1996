"""Which photos make up a synthetic copy of a species dataset?

Species in turn, each with its photos; every photo is another individual in an encounter of its
own, and splits follow a pattern that each species goes through.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fieldmark.data._made import species_pool
from fieldmark.data._make import LEAST_SPECIES
from fieldmark.world import Scene, Species, World

PLANTS = ("herb", "tree")


@dataclass(frozen=True, slots=True)
class Portrait:
    species: Species
    rank: int
    """number of the species within the dataset"""
    turn: int
    """number of the photo within its species"""
    split: str
    scene: Scene


def portraits(
    world: World,
    size: int,
    dataset: str,
    pattern: Sequence[str],
    plans: Sequence[str] = (),
    condition: str = "day",
) -> Iterator[Portrait]:
    """About `size` photos; each species goes through the whole pattern of splits at least once.

    `plans` are the body plans to show; others fill up where the world has too few of them.
    """
    n_least = LEAST_SPECIES if plans else len(world.species)
    pool = [world.species[each] for each in species_pool(world, dataset, n_least, *plans)]
    chosen = pool[: max(LEAST_SPECIES, min(len(pool), size // len(pattern)))]
    for number in range(max(size, len(pattern) * len(chosen))):
        turn, rank = divmod(number, len(chosen))
        split = pattern[turn % len(pattern)]
        scene = Scene(
            species=chosen[rank].index, individual=turn, burst=number, condition=condition
        )
        yield Portrait(chosen[rank], rank, turn, split, scene)


def encode(world: World, scene: Scene) -> bytes:
    """A photo as the bytes of a JPEG file, for datasets that keep images inside tables."""
    buffer = io.BytesIO()
    world.photo(scene).image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()

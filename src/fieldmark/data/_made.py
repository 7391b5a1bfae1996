"""Which species, answers and tables do the makers of published layouts share?"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from fieldmark.data._make import need_species
from fieldmark.draws import shuffled
from fieldmark.world import World


def species_pool(world: World, name: str, least: int, *builds: str) -> list[int]:
    """Species of the builds, the first build first; others only where these are fewer than `least`.

    Never more than the world has.
    """
    need_species(world, name)
    found: list[int] = []
    for build in builds:
        wanted = {
            each.index
            for each in world.species
            if build in (each.traits["kind"], each.traits["body_plan"])
        }
        found += sorted(wanted - set(found))
    rest = [each.index for each in world.species if each.index not in found]
    return found + rest[: max(0, least - len(found))]


def both_answers(truth: dict[int, bool], *draw: object) -> dict[int, bool]:
    """The truth where species differ in it; else half of the species, drawn, are given the trait.

    A trait that all species share could be neither learnt nor scored.
    """
    if len(set(truth.values())) == 2:
        return truth
    chosen = set(shuffled([str(each) for each in truth], *draw)[: len(truth) // 2])
    return {each: str(each) in chosen for each in truth}


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], separator: str = ","
) -> None:
    """A table file; no header line when the header is empty. None is written as nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerows([list(header)] if header else [])
        writer.writerows(rows)

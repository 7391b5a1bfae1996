"""How does the synthetic world write a FishNet and a Fish-Vista of its own?

Fish where the world has enough of them. Traits that can be seen are the world's truth (fins,
barbels, the water behind the fish); a trait in which the species do not differ is drawn for half.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from fieldmark.data import fishnet, fishvista
from fieldmark.data._made import both_answers, species_pool, write_rows
from fieldmark.data._make import pick, take_photo
from fieldmark.draws import digest
from fieldmark.world import Scene, World

_FISH = ("fish", "whale")
_CLIMATES = ("Tropical", "Temperate", "Subtropical", "Boreal", "Polar")
_MARKS = {
    "adipose_fin": "has_adipose_fin",
    "pelvic_fin": "has_pelvic_fin",
    "barbel": "has_barbel",
    "multiple_dorsal_fin": "has_two_dorsal_fins",
}


def write_fishnet(root: Path, world: World, size: int) -> None:
    """Tables and photos; about `size` of them, at least six a species, a third for the test."""
    pool = species_pool(world, "fishnet", 6, *_FISH)
    traits = _fishnet_traits(world, pool)
    rows: dict[str, list[list[object]]] = {"train": [], "test": []}
    for number in range(max(size, 6 * len(pool))):
        turn, place = divmod(number, len(pool))
        split = "test" if turn % 3 == 2 else "train"
        # Even individuals are for training, odd ones for the test.
        scene = Scene(species=pool[place], individual=2 * turn + (split == "test"), burst=number)
        row = _fishnet_row(world, scene, number, traits)
        folder = root / fishnet.IMAGE_FOLDER / str(row["Folder"])
        take_photo(world, scene, folder / str(row["image"]).rpartition("/")[2])
        rows[split].append([row.get(name) for name in fishnet.FILE_COLUMNS])
    for split, listed in rows.items():
        write_rows(root / f"{split}.csv", fishnet.FILE_COLUMNS, listed)


def _fishnet_traits(world: World, pool: list[int]) -> dict[str, dict[int, bool]]:
    species = {each: world.species[each].traits for each in pool}
    truth = {
        "FeedingPath": {each: one["habitat"] == "open_sea" for each, one in species.items()},
        "freshwater": {each: one["water"] == "freshwater" for each, one in species.items()},
        "saltwater": {each: one["water"] == "saltwater" for each, one in species.items()},
        "brackish": {each: one["water"] == "brackish" for each, one in species.items()},
        **{
            climate: {each: one["climate"] == climate.lower() for each, one in species.items()}
            for climate in _CLIMATES
        },
    }
    return {
        name: both_answers(answers, world.seed, "fishnet", name) for name, answers in truth.items()
    }


def _fishnet_row(
    world: World, scene: Scene, number: int, traits: dict[str, dict[int, bool]]
) -> dict[str, object]:
    """iNaturalist's photos have a bare name and no species, FishBase's an address and a species."""
    species = world.species[scene.species]
    ranks = species.ranks
    is_inat = pick(2, world.seed, "fishnet", "source", number) == 0
    name = str(uuid.UUID(bytes=digest(world.seed, "fishnet", number)))
    short = f"{ranks['genus'][:2]}{ranks['species'][:3]}_u{number}.jpg"
    row: dict[str, object] = {
        "": number,
        "Unnamed: 0": number,
        "species": None if is_inat else species.scientific_name,
        "image": f"{name}.jpg" if is_inat else f"https://www.fishbase.se/images/species/{short}",
        "SpecCode": None if is_inat else scene.species,
        "Genus": ranks["genus"],
        "Family": ranks["family"],
        "Order": ranks["order"],
        "Class": ranks["class"],
        "source": "inat" if is_inat else "fishbase",
        "Folder": ranks["family"],
        "Troph": 3.5,
        **{each: int(traits[each][scene.species]) for each in fishnet.TRAITS},
        "NewOrder": ranks["order"],
        "Frequency": 0.25,
    }
    row["FeedingPath"] = "pelagic" if traits["FeedingPath"][scene.species] else "benthic"
    if number % 20 == 13:
        row |= dict.fromkeys(fishnet.TRAITS)
    return row


def write_fishvista(root: Path, world: World, size: int) -> None:
    """Tables and photos; the last quarter of the species is left out of train."""
    pool = species_pool(world, "fishvista", 8, *_FISH)
    n_left_out = len(pool) // 4
    traits = {
        name: both_answers(
            {each: bool(world.species[each].traits[mark]) for each in pool},
            *(world.seed, "fishvista", name),
        )
        for name, mark in _MARKS.items()
    }
    rows: dict[str, list[list[object]]] = {name: [] for name in fishvista.SPLITS}
    species: dict[str, list[list[object]]] = {name: [] for name in fishvista.CLASSIFICATION_SPLITS}
    for number in range(max(size, 6 * len(pool))):
        turn, place = divmod(number, len(pool))
        split = ("train", "train", "test_insp", "train", "val", "train")[turn % 6]
        split = "test_lvsp" if place >= len(pool) - n_left_out else split
        is_test = split != "train"
        scene = Scene(species=pool[place], individual=2 * turn + is_test, burst=number)
        row = _fishvista_row(world, scene, number, traits)
        take_photo(world, scene, root / str(row["file_name"]))
        rows[split].append([row.get(name) for name in fishvista.FILE_COLUMNS])
        bare = row | dict.fromkeys(fishvista.TRAITS)
        if split != "test_lvsp":
            kind = "test" if split == "test_insp" else split
            species[kind].append([bare.get(name) for name in fishvista.FILE_COLUMNS])
    for split, listed in rows.items():
        write_rows(root / f"identification_{split}.csv", fishvista.FILE_COLUMNS, listed)
    for split, listed in species.items():
        write_rows(root / f"classification_{split}.csv", fishvista.FILE_COLUMNS, listed)


def _fishvista_row(
    world: World, scene: Scene, number: int, traits: dict[str, dict[int, bool]]
) -> dict[str, object]:
    species = world.species[scene.species]
    name = f"FV_{number:06}.jpg"
    row: dict[str, object] = {
        "filename": name,
        "source_filename": f"museum_{number:06}.jpg",
        "original_format": "jpg",
        "arkid": f"ark:/00000/{number:06}",
        "family": species.ranks["family"],
        "source": "GLIN",
        "owner": "fieldmark",
        "standardized_species": species.scientific_name.lower(),
        "original_url": f"https://example.org/{number:06}.jpg",
        "file_name": f"{fishvista.IMAGE_FOLDER}/chunk_{1 + number // 10_000}/{name}",
        "license": "CC0",
        **{each: int(traits[each][scene.species]) for each in fishvista.TRAITS},
    }
    if number % 11 == 7:
        row["pelvic_fin"] = None
    return row

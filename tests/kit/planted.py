"""Folders of drawn photos with known faults: what must `fieldmark try` find, and what not?"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from fieldmark import draws
from fieldmark.world import Scene, World, write_photo
from fieldmark.world.taxonomy import HABITATS

N_SPECIES = 20
KINDS = (0, 3, 6, 9, 11, 15)
"""species that are built differently (a bird, a mammal, a fish, …): none is another's double"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many photos of what; everything planted is off by default."""

    n_labels: int = 4
    n_photos: int = 30
    """of each label"""
    seed: int = 0
    difficulty: float = 0.3
    n_copies: int = 0
    """photos of the first label that get a near-identical neighbour"""
    n_shots: int = 1
    """photos of one burst"""
    has_twins: bool = False
    """the first species stands under two labels"""
    n_mislabelled: int = 0
    night_fails: bool = False
    """at night, photos of the first two labels show the place without the animal"""
    has_small: bool = False
    has_slip: bool = False
    has_names: bool = False
    """labels are the species' scientific names"""


def make_photos(root: Path, plan: Plan) -> Path:
    """A folder with a folder per label."""
    world = World(seed=plan.seed, n_species=N_SPECIES, difficulty=plan.difficulty)
    labels = [f"species {chr(97 + code)}{chr(97 + code)}{chr(97 + code)}" for code in range(26)]
    if plan.has_names:
        labels = [world.species[kind].scientific_name for kind in KINDS]
    number = 0
    for code in range(plan.n_labels):
        shown = KINDS[0 if plan.has_twins and code == 1 else code]
        for place in range(plan.n_photos):
            burst, shot = divmod(place, plan.n_shots)
            is_night = plan.night_fails and place % 2 == 1
            scene = Scene(
                species=shown,
                burst=burst + 1000 * code,
                individual=burst + 1000 * code,
                shot=shot,
                condition="night" if is_night else "day",
                n_animals=0 if is_night and code < 2 else 1,
                background=HABITATS[0] if plan.night_fails else None,
                rating=5,
            )
            label = labels[code]
            if plan.n_mislabelled and code == 0 and place < plan.n_mislabelled:
                label = labels[1]
            if plan.has_slip and code == 2 and place < 2:
                label = label[:-1]
            # A number that says nothing about the order in which they were taken.
            name = f"{draws.number('name', plan.seed, number) % 10**9:09d}.jpg"
            write_photo(world.photo(scene), root / label / name)
            if plan.n_shots > 1:
                _stamp(root / label / name, hour=code, burst=burst, shot=shot)
            number += 1
            if code == 0 and place < plan.n_copies:
                shutil.copy(root / label / name, root / label / f"copy-of-{name}")
    if plan.has_small:
        for place in range(2):
            scene = Scene(species=KINDS[plan.n_labels], burst=place)
            write_photo(world.photo(scene), root / "rare thing" / f"{place}.jpg")
    return root


def _stamp(path: Path, hour: int, burst: int, shot: int) -> None:
    """When it was taken, as a camera writes it: shots of a burst are two seconds apart."""
    image = Image.open(path)
    exif = image.getexif()
    exif.get_ifd(0x8769)[0x9003] = f"2024:05:{burst % 28 + 1:02} {hour:02}:00:{2 * shot:02}"
    image.save(path, exif=exif, quality=95)


def make_outsiders(root: Path, plan: Plan, n: int) -> Path:
    """Photos of another species, under the microscope and on herbarium sheets."""
    world = World(seed=plan.seed, n_species=N_SPECIES, difficulty=plan.difficulty)
    for place in range(n):
        scene = Scene(
            species=KINDS[plan.n_labels],
            burst=9000 + place,
            condition=("microscope", "herbarium")[place % 2],
        )
        write_photo(world.photo(scene), root / f"{place}.jpg")
    return root

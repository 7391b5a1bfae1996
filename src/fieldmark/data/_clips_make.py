"""How does the synthetic world write clips: a KABR and a MammalNet of its own?

A clip is one burst, its frames the moments of one behaviour; train and test show different animals.
"""

from __future__ import annotations

import json
from pathlib import Path

from fieldmark.data import kabr, mammalnet
from fieldmark.data._made import species_pool, write_rows
from fieldmark.data._make import pick, take_photo
from fieldmark.world import Scene, World

_KABR = {
    "Walk": "walking", "Graze": "grazing", "Browse": "browsing", "Head Up": "head_up",
    "Auto-Groom": "grooming", "Trot": "trotting", "Run": "running", "Occluded": "standing",
}  # fmt: skip
_MAMMALNET = {
    "eats_food": "feeding", "sleeps": "resting", "grooms": "grooming",
    "mates_with_other_animals": "mating", "nurses_or_breastfeeds_its_baby": "feeding_young",
    "fights_against_other_animals": "running",
}  # fmt: skip
_ROUND = ("train", "train", "test")
"""where the clips of a behaviour go, in turn"""
_SHORT = 9
"""frames of the one KABR clip that is too short to be used"""


def write_kabr(root: Path, world: World, size: int) -> None:
    """Four behaviours in small copies, all eight from 500 frames on; one clip is too short."""
    pool = species_pool(world, "kabr", 2, "horse", "deer", "mammal")[:3]
    names = kabr.CLASSES if size >= 500 else kabr.CLASSES[:4]
    most = 90 if size >= 3000 else 24
    rows: dict[str, list[list[object]]] = {"train": [], "val": []}
    number = 0
    n_frames = 0
    while number < 3 * len(names) or n_frames < size:
        turn, place = divmod(number, len(names))
        split = "val" if _ROUND[turn % 3] == "test" else "train"
        scene = _scene(world, "kabr", number, pool, split == "val")
        length = kabr.N_FRAMES + 1 + pick(most - kabr.N_FRAMES, world.seed, "kabr", number)
        rows[split] += _write_kabr_clip(root, world, scene, (number + 1, place, length))
        n_frames += length
        number += 1
    short = _scene(world, "kabr", number, pool, False)
    rows["train"] += _write_kabr_clip(root, world, short, (number + 1, 0, _SHORT))
    for split, listed in rows.items():
        path = root / kabr.ANNOTATIONS / f"{split}.csv"
        write_rows(path, kabr.FILE_COLUMNS, listed, separator=" ")
    classes = {name: index for index, name in enumerate(kabr.CLASSES)}
    (root / kabr.ANNOTATIONS / "classes.json").write_text(json.dumps(classes), encoding="utf-8")


def _write_kabr_clip(
    root: Path, world: World, scene: Scene, clip: tuple[int, int, int]
) -> list[list[object]]:
    """In every fourth clip the animal lifts its head for the last fifth."""
    number, label, length = clip
    video = f"Z{number:04}"
    rows: list[list[object]] = []
    for frame in range(length):
        lifts = number % 4 == 0 and frame >= length - length // 5
        shown = kabr.CLASSES.index("Head Up") if lifts else label
        moment = _moment(scene, kabr.CLASSES[shown], frame)
        path = f"{video}/{frame + 1}.jpg"
        take_photo(world, moment, root / kabr.IMAGE_FOLDER / path)
        rows.append([video, number, frame + 1, path, shown])
    return rows


def _moment(scene: Scene, name: str, frame: int) -> Scene:
    return Scene(
        species=scene.species,
        individual=scene.individual,
        burst=scene.burst,
        behaviour=_KABR[name],
        condition="occluded" if name == "Occluded" else "day",
        frame=frame,
    )


def write_mammalnet(root: Path, world: World, size: int) -> None:
    """Four behaviours in small copies, six from 1,000 frames on; 32 frames a clip."""
    pool = species_pool(world, "mammalnet", 3, "mammal")[:6]
    names = list(_MAMMALNET) if size >= 1000 else list(_MAMMALNET)[:4]
    rows: dict[str, list[list[object]]] = {"train": [], "test": []}
    for number in range(max(3 * len(names), size // mammalnet.N_FRAMES)):
        turn, place = divmod(number, len(names))
        split = _ROUND[turn % 3]
        scene = _scene(world, "mammalnet", number, pool, split == "test")
        name = f"made{number:07}"
        for frame, file in enumerate(mammalnet.FRAMES):
            moment = Scene(
                species=scene.species,
                individual=scene.individual,
                burst=scene.burst,
                behaviour=_MAMMALNET[names[place]],
                frame=2 * frame,
            )
            take_photo(world, moment, root / mammalnet.FRAME_FOLDER / name / file)
        rows[split].append([f"trimmed_videos/{name}.mp4", place, pool.index(scene.species)])
    for split, listed in rows.items():
        write_rows(root / mammalnet.ANNOTATIONS / f"{split}.csv", (), listed, separator=" ")
    genera = [world.species[each].scientific_name.lower() for each in pool]
    for file, listing in ((mammalnet.BEHAVIOURS_FILE, names), (mammalnet.SPECIES_FILE, genera)):
        numbers = [[name, number] for number, name in enumerate(listing)]
        write_rows(root / file, (), numbers, separator="\t")


def _scene(world: World, name: str, number: int, pool: list[int], is_test: bool) -> Scene:
    """Who is filmed where; even individuals are for training, odd ones for the test."""
    species = pool[pick(len(pool), world.seed, name, "species", number)]
    return Scene(species=species, individual=2 * number + is_test, burst=number)

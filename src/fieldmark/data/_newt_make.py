"""How does the synthetic world write a NeWT of its own?

All 164 tasks under their true names, in the exact layout. What sets a task's second class apart is
what its name says, as far as the world can show it: species against species, age, health,
behaviour, things in the picture. Each photo is an encounter of its own; train and test show
different individuals.
"""

from __future__ import annotations

import csv
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.data._make import need_species, pick, sisters, species_like, take_photo
from fieldmark.data._newt_tasks import AGE_PREFIX, newt_tasks
from fieldmark.data.newt import FILE_COLUMNS, IMAGE_FOLDER, LABELS_FILE
from fieldmark.draws import digest
from fieldmark.world import Scene, World

LEAST, MOST = 2, 100
"""images per class and split"""
SMALL_PREFIX = "inat_non_species"
"""These tasks are half as large, with fewer of the second class in test, as in the real set."""
CALM = ("standing", "walking", "head_up", "resting")


@dataclass(frozen=True, slots=True)
class Sign:
    """How the two classes of a task differ: scene fields of the first and of the second."""

    builds: tuple[str, ...]
    """kinds or body plans to choose from, the first that the world has"""
    plain: Mapping[str, Any] = field(default_factory=dict)
    marked: Mapping[str, Any] = field(default_factory=dict)
    n_species: int = 0
    """1: both classes of one species; 2: one species each; 0: any of the build, in both classes"""


def _extra(name: str, *builds: str) -> Sign:
    return Sign((*builds, "bird"), marked={"extras": (name,)})


def _morph(name: str, *builds: str) -> Sign:
    return Sign(builds, marked={"morph": name}, n_species=1)


def _does(behaviour: str, *builds: str, n_species: int = 0) -> Sign:
    return Sign((*builds, "bird"), marked={"behaviour": behaviour}, n_species=n_species)


def _both(*builds: str, **fields: Any) -> Sign:
    return Sign(builds, plain=fields, marked=fields, n_species=2)


# By the longest beginning of the task's name that is listed here.
SIGNS: dict[str, Sign] = {
    "fgvcx_icassava": Sign(("tree", "herb"), marked={"sick": True}, n_species=1),
    "fgvcx_plant_pathology": Sign(("herb", "tree"), marked={"sick": True}, n_species=1),
    "inat_non_species_birds_near_signs": _extra("sign"),
    "inat_non_species_black_eastern_gray_squirrel": _morph("black", "squirrel", "mammal"),
    "inat_non_species_dead_common_garter_snake": _both("lizard", extras=("dead",)),
    "inat_non_species_dead_jackal": _both("fox", "mammal", extras=("dead",)),
    "inat_non_species_dead_striped_skunk": _both("bear", "mammal", extras=("dead",)),
    "inat_non_species_deformed_beak": _extra("deformed"),
    "inat_non_species_diseased_leaves": _both("tree", "herb", sick=True),
    "inat_non_species_diseased_zebra_finch": Sign(
        ("songbird", "bird"), marked={"sick": True}, n_species=1
    ),
    "inat_non_species_feather": _both("bird", extras=("feather",)),
    "inat_non_species_intersex_mallards": _morph("mixed", "waterfowl", "bird"),
    "inat_non_species_mammal_species": _both("mammal"),
    "inat_non_species_mating": _does("mating", "beetle", n_species=1),
    "inat_non_species_mating_aligator_lizard": _does("mating", "lizard", n_species=1),
    "inat_non_species_mating_argia_vivida": _does("mating", "butterfly", n_species=1),
    "inat_non_species_mating_common_green_darner": _does("mating", "butterfly", n_species=1),
    "inat_non_species_mating_danaus_plexippus": _does(
        "mating", "brushfoot", "butterfly", n_species=1
    ),
    "inat_non_species_mating_harmonia_axyridis": _does("mating", "ladybird", "beetle", n_species=1),
    "inat_non_species_mating_terrapene_carolina": _does("mating", "lizard", n_species=1),
    "inat_non_species_tagged_swan": _extra("tag", "waterfowl"),
    "inat_non_species_white_american_robin": _morph("white", "songbird", "bird"),
    "inat_non_species_white_white_tailed_deer": _morph("white", "deer", "mammal"),
    "ml_age_": Sign(("bird",), plain={"stage": "juvenile"}, marked={"stage": "adult"}, n_species=1),
    "ml_bio_has_red_eyes": _extra("red_eyes"),
    "ml_bio_high_contrast": Sign(
        ("bird",), plain={"morph": "low_contrast"}, marked={"morph": "high_contrast"}
    ),
    "ml_bio_is_at_flower": _extra("flower"),
    "ml_bio_raptor_utility_pole": _extra("pole", "raptor"),
    "ml_photo_rating": Sign(("bird",), plain={"rating": (1, 2)}, marked={"rating": (4, 5)}),
    "ml_tag_back_of_camera": _extra("back_of_camera"),
    "ml_tag_carrying_food": _does("carrying_food"),
    "ml_tag_copulation": _does("mating"),
    "ml_tag_dead": _extra("dead"),
    "ml_tag_egg": _extra("egg"),
    "ml_tag_feeding_young": _does("feeding_young"),
    "ml_tag_field_notes_sketch": _extra("sketch"),
    "ml_tag_foraging_waterfowl": _does("feeding", "waterfowl"),
    "ml_tag_in_hand": _extra("in_hand"),
    "ml_tag_molting_raptors": _extra("moulting", "raptor"),
    "ml_tag_molting_waterfowl": _extra("moulting", "waterfowl"),
    "ml_tag_multiple_species": Sign(
        ("bird",), plain={"n_animals": (2, 3)}, marked={"n_animals": (1, 2), "others": "drawn"}
    ),
    "ml_tag_nest": _extra("nest"),
    "ml_tag_non_bird": Sign(("bird",), marked={"species": "other"}),
    "ml_tag_vocalizing": _does("vocalizing"),
    "ml_tag_watermark": _extra("watermark"),
}
# For tasks that set species against species: words of their names, and what is built like that.
BUILDS: dict[str, str] = {
    "bird": "nabirds Meadowlark _Ani_ corvus emberiza hippolais lanius serinus turdus",
    "whale": "Sea_Lion",
    "mammal": "Kangaroo apodemus",
    "fish": "Mosquitofish",
    "newt": "Salamander Toad",
    "lizard": "Crocodile nake Lizard podarcis",
    "butterfly": "Grass_Yellow leucorrhinia scopula",
    "spider": "Spider Widow Orbweaver Tarantula diaea aceria",
    "mushroom": "Jelly Polypore Conk amanita armillaria cladonia cortinarius lactarius "
    "oudemansiella panus phaeophyscia",
    "herb": "cattail chloris cuphea thysanotus tillandsia",
    "tree": "pinus polystichum",
    "beetle": "Mussel Oyster Snail Slug Chiton Woodlouse judolia otiorhynchus lampsilis",
}


def write_newt(root: Path, world: World, size: int) -> None:
    """Labels and images; about `size` of them, but never fewer than eight a task."""
    need_species(world, "newt")
    (root / IMAGE_FOLDER).mkdir(parents=True, exist_ok=True)
    aged = species_of_age_tasks(world)
    rows = []
    for shot in _shots(size):
        scene = plan_scene(world, shot, aged.get(shot.task))
        rows.append(write_shot(root, world, shot, scene))
    with (root / LABELS_FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([FILE_COLUMNS, *rows])


@dataclass(frozen=True, slots=True)
class Shot:
    task: str
    label: int
    split: str
    turn: int

    @property
    def parts(self) -> tuple[object, ...]:
        return self.task, self.label, self.split, self.turn

    def pick(self, n: int, world: World, purpose: str) -> int:
        return pick(n, world.seed, "newt", *self.parts, purpose)


def _shots(size: int) -> Iterator[Shot]:
    for task, (n_plain, n_small) in plan_sizes(size).items():
        for split, label in (("train", 0), ("train", 1), ("test", 0), ("test", 1)):
            n = n_small if split == "test" and label else n_plain
            yield from (Shot(task, label, split, turn) for turn in range(n))


def plan_sizes(size: int) -> dict[str, tuple[int, int]]:
    """Images per class: in general, and of the second class in test."""
    names = sorted(newt_tasks(), key=lambda each: (each.startswith(SMALL_PREFIX), each))
    n_small = sum(each.startswith(SMALL_PREFIX) for each in names)
    n = round(size / (4 * (len(names) - n_small) + 1.77 * n_small))
    n = min(MOST, max(LEAST, n))
    small = (max(LEAST, n // 2), max(LEAST, round(n * 0.27)))
    return {each: small if each.startswith(SMALL_PREFIX) else (n, n) for each in names}


def write_shot(root: Path, world: World, shot: Shot, scene: Scene) -> tuple[object, ...]:
    """Takes the photo; answers its row of the labels file."""
    task = newt_tasks()[shot.task]
    name = str(uuid.UUID(bytes=digest(world.seed, "newt", *shot.parts)))
    width, height = take_photo(world, scene, root / IMAGE_FOLDER / f"{name}.jpg")
    text_label = task.classes[shot.label][0]
    clusters = (task.cluster, task.sub_cluster or "")
    return (name, *clusters, task.name, shot.label, text_label, shot.split, height, width)


def sign_of(task: str) -> Sign:
    known = [each for each in SIGNS if task.startswith(each)]
    if known:
        return SIGNS[max(known, key=len)]
    builds = [
        build for build, words in BUILDS.items() if any(each in task for each in words.split())
    ]
    return Sign((*builds, "bird"), n_species=2)


def plan_scene(world: World, shot: Shot, aged: int | None) -> Scene:
    """What to photograph; `aged` is the species of an age task."""
    sign = sign_of(shot.task)
    fields = dict(sign.marked if shot.label else sign.plain)
    species = _species(world, shot, sign) if aged is None else aged
    if fields.pop("species", "") == "other":
        birds = set(species_like(world, "bird"))
        rest = [each.index for each in world.species if each.index not in birds] or [species]
        species = rest[shot.pick(len(rest), world, "other")]
    if fields.pop("others", ""):
        rest = [each for each in species_like(world, "bird") if each != species] or [0]
        fields["others"] = (rest[shot.pick(len(rest), world, "company")],)
    for name, value in fields.items():
        if name in ("rating", "n_animals"):
            fields[name] = value[shot.pick(len(value), world, name)]
    calm = [each for each in CALM if each in world.species[species].plan.behaviours]
    fields.setdefault("behaviour", calm[shot.pick(len(calm), world, "behaviour")])
    # Even individuals are for training, odd ones for the test.
    individual = 2 * shot.pick(400, world, "individual") + (shot.split == "test")
    burst = shot.pick(10**9, world, "burst")
    return Scene(species=species, individual=individual, burst=burst, **fields)


def _species(world: World, shot: Shot, sign: Sign) -> int:
    if sign.n_species == 2:
        pairs = sisters(world, *sign.builds)
        return pairs[pick(len(pairs), world.seed, "newt", shot.task)][shot.label]
    pool = species_like(world, *sign.builds)
    if sign.n_species == 1:
        return pool[pick(len(pool), world.seed, "newt", shot.task)]
    return pool[shot.pick(len(pool), world, "species")]


def species_of_age_tasks(world: World) -> dict[str, int]:
    """Twelve different species, so that they can be told apart in the ages tasks too."""
    chosen: dict[str, int] = {}
    for task in newt_tasks():
        if not task.startswith(AGE_PREFIX):
            continue
        kind = "raptor" if task.endswith(("hawk", "eagle")) else "wader"
        order = [*species_like(world, kind, "bird"), *species_like(world, "bird")]
        order += [*species_like(world, "mammal"), *range(len(world.species))]
        free = [each for each in order if each not in chosen.values()]
        chosen[task] = (free or order)[0]
    return chosen

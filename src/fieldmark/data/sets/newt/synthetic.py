"""Synthetic copy of NeWT.

All 164 tasks under their true names, in the exact layout. What sets a task's second class apart is
what its name says, as far as the world can show it: species against species, age, health,
behaviour, things in the picture. Each photo is an encounter of its own; train and test show
different individuals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.data._make import (
    need_species,
    photo_key,
    pick,
    sisters,
    species_like,
    take_photo,
    write_rows,
)
from fieldmark.data.sets.newt.tasks import (
    AGE_PREFIX,
    FILE_COLUMNS,
    IMAGE_FOLDER,
    LABELS_FILE,
    newt_tasks,
)
from fieldmark.world import Scene

if TYPE_CHECKING:
    from fieldmark.world import World

LEAST, MOST = 2, 100
"""images per class and split"""
SMALL_PREFIX = "inat_non_species"
"""These tasks are half as large, with fewer of the second class in test, as in the real set."""
CALM = ("standing", "walking", "head_up", "resting")


@dataclass(frozen=True, slots=True)
class ClassContrast:
    """How the two classes of a task differ: scene fields of the first and of the second."""

    builds: tuple[str, ...]
    """kinds or body plans to choose from, the first that the world has"""
    plain: Mapping[str, Any] = field(default_factory=dict)
    marked: Mapping[str, Any] = field(default_factory=dict)
    n_species: int = 0
    """1: both classes of one species; 2: one species each; 0: any of the build, in both classes"""


def _extra(name: str, *builds: str) -> ClassContrast:
    return ClassContrast((*builds, "bird"), marked={"extras": (name,)})


def _morph(name: str, *builds: str) -> ClassContrast:
    return ClassContrast(builds, marked={"morph": name}, n_species=1)


def _does(behaviour: str, *builds: str, n_species: int = 0) -> ClassContrast:
    return ClassContrast((*builds, "bird"), marked={"behaviour": behaviour}, n_species=n_species)


def _both(*builds: str, **fields: Any) -> ClassContrast:
    return ClassContrast(builds, plain=fields, marked=fields, n_species=2)


# By the longest beginning of the task's name that is listed here.
CONTRASTS: dict[str, ClassContrast] = {
    "fgvcx_icassava": ClassContrast(("tree", "herb"), marked={"sick": True}, n_species=1),
    "fgvcx_plant_pathology": ClassContrast(("herb", "tree"), marked={"sick": True}, n_species=1),
    "inat_non_species_birds_near_signs": _extra("sign"),
    "inat_non_species_black_eastern_gray_squirrel": _morph("black", "squirrel", "mammal"),
    "inat_non_species_dead_common_garter_snake": _both("lizard", extras=("dead",)),
    "inat_non_species_dead_jackal": _both("fox", "mammal", extras=("dead",)),
    "inat_non_species_dead_striped_skunk": _both("bear", "mammal", extras=("dead",)),
    "inat_non_species_deformed_beak": _extra("deformed"),
    "inat_non_species_diseased_leaves": _both("tree", "herb", sick=True),
    "inat_non_species_diseased_zebra_finch": ClassContrast(
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
    "ml_age_": ClassContrast(
        ("bird",), plain={"stage": "juvenile"}, marked={"stage": "adult"}, n_species=1
    ),
    "ml_bio_has_red_eyes": _extra("red_eyes"),
    "ml_bio_high_contrast": ClassContrast(
        ("bird",), plain={"morph": "low_contrast"}, marked={"morph": "high_contrast"}
    ),
    "ml_bio_is_at_flower": _extra("flower"),
    "ml_bio_raptor_utility_pole": _extra("pole", "raptor"),
    "ml_photo_rating": ClassContrast(
        ("bird",), plain={"rating": (1, 2)}, marked={"rating": (4, 5)}
    ),
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
    "ml_tag_multiple_species": ClassContrast(
        ("bird",), plain={"n_animals": (2, 3)}, marked={"n_animals": (1, 2), "others": "drawn"}
    ),
    "ml_tag_nest": _extra("nest"),
    "ml_tag_non_bird": ClassContrast(("bird",), marked={"species": "other"}),
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


def make(root: Path, world: World, size: int) -> None:
    """All 164 tasks in the exact layout; about `size` images, but never fewer than eight a task."""
    need_species(world, "newt")
    (root / IMAGE_FOLDER).mkdir(parents=True, exist_ok=True)
    aged = species_of_age_tasks(world)
    rows = []
    for photo in _photos(size):
        scene = plan_scene(world, photo, aged.get(photo.task))
        rows.append(write_newt_photo(root, world, photo, scene))
    write_rows(root / LABELS_FILE, FILE_COLUMNS, rows)


@dataclass(frozen=True, slots=True)
class NewtPhoto:
    """One photo of a task, still to be taken."""

    task: str
    label: int
    split: str
    turn: int

    @property
    def parts(self) -> tuple[object, ...]:
        return self.task, self.label, self.split, self.turn

    def pick(self, n: int, world: World, purpose: str) -> int:
        return pick(n, world.seed, "newt", *self.parts, purpose)


def _photos(size: int) -> Iterator[NewtPhoto]:
    for task, (n_plain, n_small) in plan_sizes(size).items():
        for split, label in (("train", 0), ("train", 1), ("test", 0), ("test", 1)):
            n = n_small if split == "test" and label else n_plain
            yield from (NewtPhoto(task, label, split, turn) for turn in range(n))


def plan_sizes(size: int) -> dict[str, tuple[int, int]]:
    """Images per class: in general, and of the second class in test."""
    names = sorted(newt_tasks(), key=lambda task: (task.startswith(SMALL_PREFIX), task))
    n_small = sum(task.startswith(SMALL_PREFIX) for task in names)
    n = round(size / (4 * (len(names) - n_small) + 1.77 * n_small))
    n = min(MOST, max(LEAST, n))
    small = (max(LEAST, n // 2), max(LEAST, round(n * 0.27)))
    return {task: small if task.startswith(SMALL_PREFIX) else (n, n) for task in names}


def write_newt_photo(
    root: Path, world: World, photo: NewtPhoto, scene: Scene
) -> tuple[object, ...]:
    """Takes the photo; answers its row of the labels file."""
    task = newt_tasks()[photo.task]
    name = str(photo_key(world, "newt", *photo.parts))
    width, height = take_photo(world, scene, root / IMAGE_FOLDER / f"{name}.jpg")
    text_label = task.classes[photo.label][0]
    clusters = (task.cluster, task.sub_cluster or "")
    return (name, *clusters, task.name, photo.label, text_label, photo.split, height, width)


def contrast_of(task: str) -> ClassContrast:
    starts = [start for start in CONTRASTS if task.startswith(start)]
    if starts:
        return CONTRASTS[max(starts, key=len)]
    builds = [
        build for build, words in BUILDS.items() if any(word in task for word in words.split())
    ]
    return ClassContrast((*builds, "bird"), n_species=2)


def plan_scene(world: World, photo: NewtPhoto, aged: int | None) -> Scene:
    """What to photograph; `aged` is the species of an age task."""
    contrast = contrast_of(photo.task)
    fields = dict(contrast.marked if photo.label else contrast.plain)
    species = _species(world, photo, contrast) if aged is None else aged
    if fields.pop("species", "") == "other":
        birds = set(species_like(world, "bird"))
        rest = [one.index for one in world.species if one.index not in birds] or [species]
        species = rest[photo.pick(len(rest), world, "other")]
    if fields.pop("others", ""):
        rest = [index for index in species_like(world, "bird") if index != species] or [0]
        fields["others"] = (rest[photo.pick(len(rest), world, "company")],)
    for name, value in fields.items():
        if name in ("rating", "n_animals"):
            fields[name] = value[photo.pick(len(value), world, name)]
    calm = [doing for doing in CALM if doing in world.species[species].plan.behaviours]
    fields.setdefault("behaviour", calm[photo.pick(len(calm), world, "behaviour")])
    # Even individuals are for training, odd ones for the test.
    individual = 2 * photo.pick(400, world, "individual") + (photo.split == "test")
    burst = photo.pick(10**9, world, "burst")
    return Scene(species=species, individual=individual, burst=burst, **fields)


def _species(world: World, photo: NewtPhoto, contrast: ClassContrast) -> int:
    if contrast.n_species == 2:
        pairs = sisters(world, *contrast.builds)
        return pairs[pick(len(pairs), world.seed, "newt", photo.task)][photo.label]
    pool = species_like(world, *contrast.builds)
    if contrast.n_species == 1:
        return pool[pick(len(pool), world.seed, "newt", photo.task)]
    return pool[photo.pick(len(pool), world, "species")]


def species_of_age_tasks(world: World) -> dict[str, int]:
    """Twelve different species, so that they can be told apart in the ages tasks too."""
    chosen: dict[str, int] = {}
    for task in newt_tasks():
        if not task.startswith(AGE_PREFIX):
            continue
        kind = "raptor" if task.endswith(("hawk", "eagle")) else "wader"
        order = [*species_like(world, kind, "bird"), *species_like(world, "bird")]
        order += [*species_like(world, "mammal"), *range(len(world.species))]
        free = [index for index in order if index not in chosen.values()]
        chosen[task] = (free or order)[0]
    return chosen

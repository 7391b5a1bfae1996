"""Which photos make the `world` dataset, so that all its questions can be asked of 300 or 1,500?

Seven sub-collections; every answer to a question gets the same number of photos of the same
species, so that only the answer differs. A burst is one unit and lies in one split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fieldmark.data.world._scene import Scene
from fieldmark.data.world._species import Species
from fieldmark.data.world._world import World

_LAND = ("bird", "mammal")
_BEHAVIOURS = ("standing", "walking", "running", "grazing", "vocalizing", "resting")
_HABITATS = ("forest", "meadow", "desert", "wetland", "tundra", "savanna")
_BURSTS_A_QUESTION = 10000  # numbers kept apart, so that no unit belongs to two questions


@dataclass(frozen=True, slots=True)
class Item:
    """One photo to take."""

    question: str
    split: str
    answer: str
    """truth column that answers the question"""
    scene: Scene


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    answer: str
    share: float
    """of the collection's photos"""
    variants: Callable[[World], Sequence[Scene]]
    """one scene per answer and species; bursts, shots and individuals are filled in"""
    n_group: int
    """variants that belong together: all answers for one species"""


def _species(world: World, *plans: str) -> Sequence[Species]:
    return world.of_plan(*plans) or world.species


def _patterned(world: World) -> Sequence[Species]:
    found = [
        each
        for each in _species(world, "mammal", "fish", "whale")
        if each.traits["pattern"] != "plain"
    ]
    return found or world.species


def _ask_species(world: World) -> list[Scene]:
    return [Scene(each.index) for each in world.species[:24]]


def _ask_night(world: World) -> list[Scene]:
    return [Scene(each.index) for each in _species(world, *_LAND)[:8]]


def _ask_individual(world: World) -> list[Scene]:
    return [Scene(each.index, individual=one) for each in _patterned(world)[:3] for one in range(4)]


def _ask_stage(world: World) -> list[Scene]:
    animals = _species(world, *_LAND, "lizard")[:6]
    return [Scene(each.index, stage=stage) for each in animals for stage in ("adult", "juvenile")]


def _ask_behaviour(world: World) -> list[Scene]:
    animals = _species(world, *_LAND)[:4]
    return [Scene(each.index, behaviour=doing) for each in animals for doing in _BEHAVIOURS]


def _ask_habitat(world: World) -> list[Scene]:
    animals = _species(world, *_LAND)[:4]
    return [Scene(each.index, background=place) for each in animals for place in _HABITATS]


def _ask_health(world: World) -> list[Scene]:
    living = _species(world, *_LAND, "herb", "tree", "fish")[:6]
    return [Scene(each.index, sick=sick) for each in living for sick in (False, True)]


QUESTIONS = (
    Question("species", "scientific_name", 0.34, _ask_species, 4),
    Question("night", "scientific_name", 0.16, _ask_night, 4),
    Question("individual", "individual", 0.14, _ask_individual, 4),
    Question("stage", "stage", 0.09, _ask_stage, 2),
    Question("behaviour", "behaviour", 0.1, _ask_behaviour, len(_BEHAVIOURS)),
    Question("habitat", "background", 0.09, _ask_habitat, len(_HABITATS)),
    Question("health", "health", 0.08, _ask_health, 2),
)


def plan_items(world: World, size: int) -> Iterator[Item]:
    """About `size` photos, at least 54; small collections have fewer species, not fewer answers."""
    for number, question in enumerate(QUESTIONS):
        yield from _plan_question(world, question, number, round(size * question.share))


def _plan_question(world: World, question: Question, number: int, size: int) -> Iterator[Item]:
    variants = question.variants(world)
    wanted = max(question.n_group, size // 2)
    variants = variants[: wanted - wanted % question.n_group]
    n_shots = 1 if size < 4 * len(variants) else 2
    n_bursts = 2 * max(1, round(size / len(variants) / n_shots / 2))  # even: half for each split
    bursts: dict[int, int] = {}
    for variant, turn in product(variants, range(n_bursts)):
        burst = bursts.get(variant.species, number * _BURSTS_A_QUESTION)
        bursts[variant.species] = burst + 1
        split = "train" if turn % 2 == 0 else "test"
        for shot in range(n_shots):
            scene = replace(variant, burst=burst, shot=shot, frame=turn * 3)
            taken = _taken(question.name, scene, split)
            yield Item(question.name, split, question.answer, taken)


def _taken(question: str, scene: Scene, split: str) -> Scene:
    """The scene as this question has it taken."""
    if question == "night":
        return replace(
            scene, condition="day" if split == "train" else "night", individual=scene.burst
        )
    if question == "individual":
        return scene
    return replace(scene, individual=scene.burst)

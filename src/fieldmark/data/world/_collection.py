"""Which photos make the `world` dataset, so that each of its questions can be asked of 300 or 1,500?

Seven sub-collections; every class of a question gets the same number of photos of the same species, so that only
the answer differs. A burst is one unit and lies in one split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from fieldmark.data.world._scene import Scene
from fieldmark.data.world._species import Species
from fieldmark.data.world._world import World

_LAND = ("bird", "mammal")
_BEHAVIOURS = ("standing", "walking", "running", "grazing", "vocalizing", "resting")
_HABITATS = ("forest", "meadow", "desert", "wetland", "tundra", "savanna")
_BURST_SHOTS = 2
_BURSTS_A_QUESTION = 1000  # numbers kept apart, so that no unit belongs to two questions


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
    """one scene per class and species; bursts, shots and individuals are filled in"""


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
    Question("species", "scientific_name", 0.34, _ask_species),
    Question("night", "scientific_name", 0.16, _ask_night),
    Question("individual", "individual", 0.14, _ask_individual),
    Question("stage", "stage", 0.09, _ask_stage),
    Question("behaviour", "behaviour", 0.1, _ask_behaviour),
    Question("habitat", "background", 0.09, _ask_habitat),
    Question("health", "health", 0.08, _ask_health),
)


def plan_items(world: World, size: int) -> Iterator[Item]:
    """About `size` photos; at least two bursts of every variant, one in each split."""
    for number, question in enumerate(QUESTIONS):
        yield from _plan_question(world, question, number, round(size * question.share))


def _plan_question(world: World, question: Question, number: int, size: int) -> Iterator[Item]:
    variants = question.variants(world)
    n_bursts = max(2, round(size / len(variants) / _BURST_SHOTS))
    is_thin = size < len(variants) * 2 * _BURST_SHOTS
    bursts: dict[int, int] = {}
    for variant in variants:
        for turn in range(n_bursts):
            burst = bursts.get(variant.species, number * _BURSTS_A_QUESTION)
            bursts[variant.species] = burst + 1
            split = "train" if turn % 2 == 0 else "test"
            for shot in range(1 if is_thin else _BURST_SHOTS):
                scene = replace(variant, burst=burst, shot=shot, frame=turn * 3)
                yield Item(
                    question.name, split, question.answer, _taken(question.name, scene, split)
                )


def _taken(question: str, scene: Scene, split: str) -> Scene:
    """The scene as this question has it taken."""
    if question == "night":
        return replace(
            scene, condition="day" if split == "train" else "night", individual=scene.burst
        )
    if question == "individual":
        return scene
    return replace(scene, individual=scene.burst)

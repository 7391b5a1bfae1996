"""Is the world neither trivial nor hopeless for a colour histogram, and does the dial turn?

The judge is an 8 × 8 × 8 RGB histogram at a quarter of the size and the nearest class mean.
Measured with 12 training and 16 test photos a class, seed 0, difficulty 0.5: species 0.36 (24
classes), habitat 0.91 (5), day or night 1.00 (2), behaviour 0.18 (6), individual 0.14 (8), stage
0.44 (2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from fieldmark.world import Scene, World

MAMMALS = (3, 4, 17, 18)
LAND = (0, 3, 13, 17)
BEHAVIOURS = ("standing", "walking", "running", "grazing", "head_up", "resting")
PLACES = ("forest", "desert", "tundra", "meadow", "wetland")
Question = tuple[int, Callable[[int, int], Scene]]


def _species(label: int, k: int) -> Scene:
    return Scene(label, individual=k, burst=k)


def _night(label: int, k: int) -> Scene:
    return Scene(k % 24, burst=2 * k + label, condition=("day", "night")[label])


def _habitat(label: int, k: int) -> Scene:
    return Scene(LAND[k % 4], burst=100 + 5 * k + label, background=PLACES[label])


def _behaviour(label: int, k: int) -> Scene:
    doing = BEHAVIOURS[label]
    return Scene(MAMMALS[k % 4], individual=k, burst=200 + 6 * k + label, frame=k, behaviour=doing)


def _individual(label: int, k: int) -> Scene:
    return Scene(17, individual=label, burst=300 + 8 * k + label)


def _stage(label: int, k: int) -> Scene:
    stage = ("adult", "juvenile")[label]
    return Scene(LAND[k % 4], individual=k, burst=400 + 2 * k + label, stage=stage)


def _sisters(label: int, k: int) -> Scene:
    return Scene(3 + label, individual=k, burst=k)


SPECIES, NIGHT, HABITAT = (24, _species), (2, _night), (5, _habitat)
BEHAVIOUR, INDIVIDUAL = (6, _behaviour), (8, _individual)
STAGE, SISTERS = (2, _stage), (3, _sisters)


def histogram(image: Image.Image) -> np.ndarray:
    cells = np.asarray(image.reduce(4)).astype(int) >> 5
    index = cells[..., 0] * 64 + cells[..., 1] * 8 + cells[..., 2]
    return np.sqrt(np.bincount(index.ravel(), minlength=512) / index.size)


def _n_each(n_labels: int) -> int:
    """Photos a class, for training and as many for testing: fewer classes, more of each."""
    return max(6, 48 // n_labels)


def accuracy(world: World, question: Question) -> float:
    n_labels, scene = question
    n_each = _n_each(n_labels)
    features = np.array(
        [
            [histogram(world.photo(scene(label, k)).image) for k in range(2 * n_each)]
            for label in range(n_labels)
        ]
    )
    means = features[:, :n_each].mean(axis=1)
    distance = ((features[:, n_each:, None] - means[None, None]) ** 2).sum(axis=-1)
    return float((distance.argmin(axis=-1) == np.arange(n_labels)[:, None]).mean())


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "at_least"),
    [(SPECIES, 0.22), (NIGHT, 0.95), (HABITAT, 0.7)],
    ids=["species", "night", "habitat"],
)
def test_a_histogram_is_well_above_chance_on_some(
    world: World, question: Question, at_least: float
) -> None:
    assert accuracy(world, question) > at_least > 1.5 / question[0]


@pytest.mark.parametrize(
    "question",
    [BEHAVIOUR, INDIVIDUAL, STAGE, SISTERS],
    ids=["behaviour", "individual", "stage", "sisters"],
)
def test_a_histogram_is_near_chance_on_others(world: World, question: Question) -> None:
    chance = 1 / question[0]
    n_test = question[0] * _n_each(question[0])
    spread = (chance * (1 - chance) / n_test) ** 0.5
    assert accuracy(world, question) < chance + 0.06 + 2 * spread


@pytest.mark.slow
def test_the_dial_turns() -> None:
    question = (12, _species)
    easy, hard = (accuracy(World(difficulty=one), question) for one in (0.1, 0.9))
    assert easy > hard + 0.2

"""The world itself: species, individuals, photos."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from fieldmark import draws
from fieldmark.data.world import _overlay, _photo
from fieldmark.data.world._burst import SIZE_PX, make_burst
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._look import Look, make_look
from fieldmark.data.world._pose import PAIRED
from fieldmark.data.world._scene import Scene
from fieldmark.data.world._species import Individual, Species, make_individual, make_species
from fieldmark.data.world._stage import Cast, stage
from fieldmark.data.world._truth import Truth, make_truth
from fieldmark.errors import UnknownName, UsageError

_NEXT_IN_GROUP = 500  # between the numbers of individuals that stand in one picture


@dataclass(frozen=True, slots=True)
class Photo:
    image: Image.Image
    """RGB"""
    truth: Truth
    """flat; all values can be written as JSON"""


@dataclass(frozen=True, slots=True)
class World:
    """An imaginary natural world; the same seed is the same world on every machine.

    >>> world = World(n_species=3)
    >>> world.photo(Scene(species=0, behaviour="vocalizing")).image.size
    (256, 256)
    """

    seed: int = 0
    n_species: int = 48
    """a larger world begins with the species of a smaller one"""
    difficulty: float = 0.5
    """0 = large, well-lit, distinct species; 1 = small, in any light, close relatives"""
    species: tuple[Species, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.n_species < 1:
            raise UsageError(f"world  n_species is {self.n_species}: expected at least 1.")
        if not 0 <= self.difficulty <= 1:
            raise UsageError(
                f"world  difficulty is {self.difficulty}: expected a number from 0 to 1."
            )
        made = make_species(self.seed, self.n_species, self.difficulty)
        object.__setattr__(self, "species", made)

    def of_plan(self, *plans: str) -> tuple[Species, ...]:
        """The species of the given body plans ("bird", "fish", …), in order."""
        return tuple(each for each in self.species if each.plan.name in plans)

    def sisters(self, species: int) -> tuple[Species, ...]:
        """The other species of its genus."""
        one = self.species[species]
        return tuple(
            each
            for each in self.species
            if each.ranks["genus"] == one.ranks["genus"] and each is not one
        )

    def individual(self, species: int, number: int) -> Individual:
        return make_individual(self.seed, self.species[species], number)

    def pick(self, *purpose: object) -> np.random.Generator:
        """A generator of its own for decisions about this world."""
        return draws.generator("world", self.seed, *purpose)

    def photo(self, scene: Scene, size_px: int = SIZE_PX) -> Photo:
        """The picture and everything true about it; about 3 ms.

        Sizes other than 256 are resampled from 256.
        """
        species = self._check(scene, size_px)
        burst = make_burst(self.seed, self.difficulty, species, scene)
        dice = Dice(
            self.seed,
            "sensor",
            scene.species,
            scene.burst,
            scene.shot,
            scene.frame,
            scene.condition,
        )
        picture = _photo.background(self.seed, burst, scene.condition)
        staged = stage(self.seed, self.difficulty, scene, burst, self._cast(scene))
        sprite = staged.layer.paint(SIZE_PX)
        if sprite is not None:
            _photo.blend(picture, sprite, dice)
        picture = _photo.develop(picture, scene, burst, dice)
        others = [self.species[each] for each in scene.others]
        truth = make_truth(scene, species, others, burst, staged.box, size_px)
        return Photo(_overlay.finish(picture, scene, size_px), truth)

    def _check(self, scene: Scene, size_px: int) -> Species:
        scene.check(self.n_species)
        species = self.species[scene.species]
        if scene.behaviour not in species.plan.behaviours:
            kind = f"scene  behaviour of a {species.plan.name}"
            raise UnknownName(kind, scene.behaviour, species.plan.behaviours)
        if not 16 <= size_px <= 2048:
            raise UsageError(f"photo  size_px is {size_px}: expected 16 to 2048.")
        return species

    def _cast(self, scene: Scene) -> Cast:
        count = max(2 if scene.behaviour in PAIRED else 1, scene.n_animals)
        young = 1 if scene.behaviour == "feeding_young" else None
        worn = (scene.morph, frozenset(scene.extras))
        group = []
        for place in range(count):
            number = scene.individual + _NEXT_IN_GROUP * place
            one = self.individual(scene.species, number)
            stage_of_one = "juvenile" if place == young else scene.stage
            group.append(make_look(self.seed, one, stage_of_one, scene.sick, worn))
        return Cast(tuple(group), tuple(self._passer_by(each) for each in scene.others))

    def _passer_by(self, species: int) -> Look:
        one = self.individual(species, 0)
        return make_look(self.seed, one, "adult", False, ("normal", frozenset()))

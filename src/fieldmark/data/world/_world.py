"""The world itself: species, individuals, photos."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from fieldmark import draws
from fieldmark.data.world import _overlay, _photo, _text
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._look import Look, make_look
from fieldmark.data.world._scene import Scene
from fieldmark.data.world._species import Individual, Species, make_individual, make_species
from fieldmark.data.world._stage import SIZE_PX, Burst, Cast, build_layer, make_burst
from fieldmark.errors import UnknownName, UsageError

Truth = dict[str, str | float | int | bool]


@dataclass(frozen=True, slots=True)
class Photo:
    image: Image.Image
    """RGB"""
    truth: Truth
    """flat; all values can be written as JSON"""


@dataclass(frozen=True, slots=True)
class World:
    """An imaginary natural world; the same seed is the same world on every machine."""

    seed: int = 0
    n_species: int = 48
    difficulty: float = 0.5
    """0 = large, well-lit animals of distinct species; 1 = small ones in any light, close relatives"""
    species: tuple[Species, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.n_species < 1:
            raise UsageError(f"world  n_species is {self.n_species}: expected at least 1.")
        if not 0 <= self.difficulty <= 1:
            raise UsageError(f"world  difficulty is {self.difficulty}: expected a number from 0 to 1.")
        made = make_species(self.seed, self.n_species, self.difficulty)
        object.__setattr__(self, "species", made)

    def of_plan(self, *plans: str) -> tuple[Species, ...]:
        """The species of the given body plans, in order."""
        return tuple(each for each in self.species if each.plan.name in plans)

    def individual(self, species: int, number: int) -> Individual:
        return make_individual(self.seed, self.species[species], number)

    def pick(self, *purpose: object) -> np.random.Generator:
        """A generator of its own for decisions about this world."""
        return draws.generator("world", self.seed, *purpose)

    def photo(self, scene: Scene, size_px: int = SIZE_PX) -> Photo:
        """The picture and everything true about it."""
        scene.check(self.n_species)
        species = self.species[scene.species]
        if scene.behaviour not in species.plan.behaviours:
            raise UnknownName(f"behaviour of a {species.plan.name}", scene.behaviour, species.plan.behaviours)
        burst = make_burst(self.seed, self.difficulty, species, scene)
        dice = Dice(self.seed, "sensor", scene)
        picture = _photo.background(self.seed, burst, scene.condition)
        layer = build_layer(self.seed, self.difficulty, scene, burst, self._cast(scene))
        sprite = layer.paint(SIZE_PX)
        if sprite is not None:
            _photo.blend(picture, sprite, dice)
        picture = _photo.develop(picture, scene, burst, dice)
        image = _overlay.finish(picture, scene, size_px)
        return Photo(image, self._truth(scene, species, burst))

    def _cast(self, scene: Scene) -> Cast:
        others = tuple(self._look(replace_species, 0, scene) for replace_species in scene.others)
        count = max(1, scene.n_animals)
        if scene.behaviour in ("mating", "feeding_young"):
            count = max(2, count)
        group = []
        for number in range(count):
            young = scene.behaviour == "feeding_young" and number == 1
            group.append(self._look(scene.species, scene.individual + 500 * number, scene, young))
        return Cast(tuple(group), others)

    def _look(self, species: int, number: int, scene: Scene, young: bool = False) -> Look:
        one = make_individual(self.seed, self.species[species], number)
        is_main = species == scene.species
        stage = "juvenile" if young else scene.stage if is_main else "adult"
        worn = (scene.morph, frozenset(scene.extras)) if is_main else ("normal", frozenset[str]())
        return make_look(self.seed, one, stage, scene.sick and is_main, worn)

    def _truth(self, scene: Scene, species: Species, burst: Burst) -> Truth:
        n_animals = max(2, scene.n_animals) if scene.behaviour in ("mating", "feeding_young") else scene.n_animals
        others = [self.species[each] for each in scene.others]
        truth: Truth = {
            **species.ranks,
            "scientific_name": species.scientific_name,
            "common_name": species.common_name,
            "species_index": species.index,
            **species.traits,
            "individual": f"{species.index:03d}-{scene.individual:03d}",
            "stage": scene.stage,
            "behaviour": scene.behaviour,
            "frame": scene.frame,
            "condition": scene.condition,
            "background": burst.habitat,
            "n_animals": n_animals,
            "n_species": (1 if scene.n_animals else 0) + len({each.index for each in others}),
            "is_sick": scene.sick,
            "is_dead": "dead" in scene.extras,
            "morph": scene.morph,
            "extras": " ".join(sorted(scene.extras)),
            "rating": scene.rating,
            "unit": f"{species.index:03d}-b{scene.burst:04d}",
            "burst": scene.burst,
            "shot": scene.shot,
            "camera": burst.camera,
        }
        truth["caption"] = _text.caption(truth, scene.extras, [each.common_name for each in others])
        truth["description"] = species.description
        return truth

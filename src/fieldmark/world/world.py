"""The synthetic world: species, individuals, and photos with all that is true of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from fieldmark.errors import UnknownName, UsageError
from fieldmark.files import write_file
from fieldmark.world import camera, text
from fieldmark.world.compose import SIZE_PX, Box, Burst, Cast, compose, make_burst
from fieldmark.world.draw.appearance import PAIRED, Appearance, make_appearance
from fieldmark.world.rng import Rng
from fieldmark.world.scene import Scene
from fieldmark.world.species import Individual, Species, make_individual, make_species

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
        return tuple(species for species in self.species if species.plan.name in plans)

    def individual(self, species: int, number: int) -> Individual:
        return make_individual(self.seed, self.species[species], number)

    def photo(self, scene: Scene) -> Photo:
        """The picture and everything true about it; about 3 ms."""
        species = self._check(scene)
        burst = make_burst(self.seed, self.difficulty, species, scene)
        rng = Rng(
            self.seed,
            "sensor",
            scene.species,
            scene.burst,
            scene.shot,
            scene.frame,
            scene.condition,
        )
        picture = camera.background(self.seed, burst, scene.condition)
        staged = compose(self.seed, self.difficulty, scene, burst, self._cast(scene))
        sprite = staged.layer.paint(SIZE_PX)
        if sprite is not None:
            camera.blend(picture, sprite, rng)
        picture = camera.develop(picture, scene, burst, rng)
        others = [self.species[index] for index in scene.others]
        truth = make_truth(scene, species, others, burst, staged.box)
        return Photo(camera.finish(picture, scene), truth)

    def _check(self, scene: Scene) -> Species:
        scene.check(self.n_species)
        species = self.species[scene.species]
        if scene.behaviour not in species.plan.behaviours:
            kind = f"scene  behaviour of a {species.plan.name}"
            raise UnknownName(kind, scene.behaviour, species.plan.behaviours)
        return species

    def _cast(self, scene: Scene) -> Cast:
        count = max(2 if scene.behaviour in PAIRED else 1, scene.n_animals)
        young = 1 if scene.behaviour == "feeding_young" else None
        worn = (scene.morph, frozenset(scene.extras))
        group = []
        for member in range(count):
            number = scene.individual + _NEXT_IN_GROUP * member
            one = self.individual(scene.species, number)
            stage_of_one = "juvenile" if member == young else scene.stage
            group.append(make_appearance(self.seed, one, stage_of_one, scene.sick, worn))
        return Cast(tuple(group), tuple(self._passer_by(index) for index in scene.others))

    def _passer_by(self, species: int) -> Appearance:
        one = self.individual(species, 0)
        return make_appearance(self.seed, one, "adult", False, ("normal", frozenset()))


Value = str | float | int | bool
Truth = dict[str, Value]


def make_truth(
    scene: Scene, species: Species, others: Sequence[Species], burst: Burst, box: Box
) -> Truth:
    """One flat row: taxonomy, traits, the individual, what it does, and how it was taken."""
    left, top, width, height = box
    shown = {other.index for other in others} | ({species.index} if scene.n_animals else set())
    truth: Truth = {
        **species.ranks,
        "scientific_name": species.scientific_name,
        "common_name": species.common_name,
        "species_index": species.index,
        **species.traits,
        **_of_scene(scene, species),
        "n_species": len(shown),
        "background": burst.habitat,
        "camera": burst.camera,
        "box_x": left,
        "box_y": top,
        "box_width": max(1, width),
        "box_height": max(1, height),
    }
    truth["caption"] = text.caption(truth, scene.extras, [other.common_name for other in others])
    truth["looks"] = text.looks(truth, scene.extras, [other.plan.name for other in others])
    truth["named_looks"] = text.named_looks(truth)
    truth["description"] = species.description
    return truth


def _of_scene(scene: Scene, species: Species) -> Truth:
    is_pair = scene.behaviour in PAIRED and scene.n_animals
    return {
        "individual": f"{species.index:03d}-{scene.individual:03d}",
        "stage": scene.stage,
        "behaviour": scene.behaviour,
        "frame": scene.frame,
        "condition": scene.condition,
        "n_animals": max(2, scene.n_animals) if is_pair else scene.n_animals,
        "is_sick": scene.sick,
        "is_dead": "dead" in scene.extras,
        "health": "dead" if "dead" in scene.extras else "sick" if scene.sick else "healthy",
        "morph": scene.morph,
        "extras": " ".join(sorted(scene.extras)),
        "rating": scene.rating,
        "burst": scene.burst,
        "shot": scene.shot,
        "unit": f"{species.index:03d}-b{scene.burst:05d}",
    }


# --- photo files


_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}


def write_photo(photo: Photo, path: Path) -> None:
    """Writes JPEG or PNG, as the suffix says; the file appears whole or not at all."""
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"{path}  has no known suffix: expected one of {', '.join(_FORMATS)}.")
    buffer = io.BytesIO()
    photo.image.save(buffer, kind, quality=90)
    write_file(path, buffer.getvalue())

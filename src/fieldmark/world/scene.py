"""Scene: what can be asked of the photographer."""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.errors import UnknownName, UsageError
from fieldmark.world.taxonomy import BEHAVIOURS, HABITATS

STAGES = ("adult", "juvenile")
CONDITIONS = ("day", "night", "microscope", "herbarium", "blurred", "occluded")
MORPHS = ("normal", "white", "black", "mixed", "high_contrast", "low_contrast")
EXTRAS = (
    "back_of_camera", "dead", "deformed", "egg", "feather", "flower", "in_hand", "moulting", "nest",
    "pole", "red_eyes", "sign", "sketch", "tag", "watermark",
)  # fmt: skip
MOST_ANIMALS = 6
_MOST = 10**9


@dataclass(frozen=True, slots=True)
class Scene:
    """What to photograph; the same scene in the same world is always the same pixels."""

    species: int
    """index in `world.species`"""
    individual: int = 0
    stage: str = "adult"
    behaviour: str = "standing"
    frame: int = 0
    """moment of the behaviour: a clip is frames 0, 1, 2, … of one burst"""
    condition: str = "day"
    background: str | None = None
    """a habitat; None = the species' own, now and then another one"""
    n_animals: int = 1
    """0 = the place without the animal"""
    sick: bool = False
    burst: int = 0
    """one encounter: the same place, light and position; this is the photo's unit"""
    shot: int = 0
    """number within the burst: a slightly different moment and new sensor noise"""
    extras: tuple[str, ...] = ()
    morph: str = "normal"
    others: tuple[int, ...] = ()
    """indices of other species that stand in the picture too"""
    camera: int | None = None
    """a fixed camera: its place and frame do not change over bursts"""
    rating: int = 4
    """1 (tiny, dim, unsharp) to 5 (large and clear), as people rate photos"""

    def check(self, n_species: int) -> None:
        """Raises one line for the first thing this world cannot show."""
        _one_of("stage", self.stage, STAGES)
        _one_of("behaviour", self.behaviour, BEHAVIOURS)
        _one_of("condition", self.condition, CONDITIONS)
        _one_of("morph", self.morph, MORPHS)
        if self.background is not None:
            _one_of("background", self.background, HABITATS)
        for extra in self.extras:
            _one_of("extra", extra, EXTRAS)
        for index in (self.species, *self.others):
            _whole("species", index, 0, n_species - 1)
        for name in ("individual", "frame", "burst", "shot"):
            _whole(name, getattr(self, name), 0, _MOST)
        _whole("n_animals", self.n_animals, 0, MOST_ANIMALS)
        _whole("rating", self.rating, 1, 5)


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UnknownName(field, value, allowed, where="scene")


def _whole(field: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(
            f"scene  {field} is {value!r}: expected a whole number from {low} to {high}."
        )

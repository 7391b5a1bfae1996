"""Appearance and pose: what one animal looks like in one scene, and how its body is held.

Appearance: proportions, paints and the marks of the individual. A behaviour is a way the pose moves
over frames; colour and place say nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fieldmark.world.colour import Colour, brightness, dark, light, mix
from fieldmark.world.draw.raster import Point
from fieldmark.world.rng import Rng, sine
from fieldmark.world.species import Individual, Species

_YOUNG = {"stout": 1.16, "head": 1.5, "limb": 0.72, "tail": 0.55, "snout": 0.55, "ear": 0.85}
_PALE, _BLACK = (238, 234, 224), (44, 42, 48)


@dataclass(frozen=True, slots=True)
class Appearance:
    species: Species
    individual: Individual
    form: Mapping[str, float]
    main: Colour
    second: Colour
    contrast: Colour
    """of pattern on the second colour"""
    bare: Colour
    """bill, legs, horns"""
    eye: Colour
    is_young: bool
    is_sick: bool
    extras: frozenset[str]
    morph: str
    marks_seed: int

    def rng(self, purpose: str) -> Rng:
        """Choices that stay with the individual over all photos."""
        return Rng(self.marks_seed, purpose, self.individual.name)


def make_appearance(
    seed: int, individual: Individual, stage: str, sick: bool, worn: tuple[str, frozenset[str]]
) -> Appearance:
    species = individual.species
    morph, extras = worn
    is_young = stage == "juvenile"
    young = _YOUNG if is_young else {}
    main, second = _morph_colours(species.colours, morph)
    if sick:
        main = mix(main, (150, 140, 110), 0.18)
    is_bright = brightness(main) > 120
    return Appearance(
        species=species,
        individual=individual,
        form={name: value * young.get(name, 1.0) for name, value in species.form.items()},
        main=main,
        second=second,
        contrast=dark(main, 0.45) if abs(brightness(main) - brightness(second)) < 60 else main,
        bare=dark(second, 0.35) if is_bright else mix(second, (200, 150, 60), 0.5),
        eye=(206, 30, 24)
        if "red_eyes" in extras
        else (210, 120, 130)
        if morph == "white"
        else (22, 18, 20),
        is_young=is_young,
        is_sick=sick,
        extras=extras,
        morph=morph,
        marks_seed=seed,
    )


def _morph_colours(colours: tuple[Colour, Colour], morph: str) -> tuple[Colour, Colour]:
    main, second = colours
    if morph == "white":
        return _PALE, mix(second, _PALE, 0.8)
    if morph == "black":
        return _BLACK, mix(second, _BLACK, 0.75)
    if morph == "high_contrast":
        return dark(main, 0.75), light(second, 0.85)
    if morph == "low_contrast":
        middle = mix(main, second, 0.5)
        return mix(main, middle, 0.8), mix(second, middle, 0.8)
    return main, second


FRAMES_A_CYCLE = 8
PAIRED = ("mating", "feeding_young")
"""behaviours that take two"""


@dataclass(frozen=True, slots=True)
class Pose:
    phase: float = 0.0
    """where in the cycle of steps, in turns"""
    stride: float = 0.0
    """how far the limbs swing; 1 = a run"""
    neck: float = 0.3
    """-1 = head on the ground, 1 = stretched up"""
    tilt: float = 0.0
    """of the head, in turns"""
    mouth: float = 0.0
    """0 shut, 1 wide open"""
    crouch: float = 0.0
    """1 = lying"""
    lean: float = 0.0
    """of the whole body, in turns; positive = head up"""
    bounce: float = 0.0
    tail: float = 0.0
    """-1 hanging, 1 raised"""
    looks_back: bool = False
    is_asleep: bool = False
    has_food: bool = False
    sway: float = 0.0
    """bend of bodies without limbs, in turns"""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Places on a drawn creature that other things hold on to, in its units."""

    mouth: Point
    back: Point


_STILL: dict[str, Pose] = {
    "standing": Pose(neck=0.3),
    "walking": Pose(stride=0.55, neck=0.25, tail=0.1),
    "trotting": Pose(stride=0.85, neck=0.45, tail=0.4),
    "running": Pose(stride=1.35, neck=0.05, tail=0.7, lean=0.012),
    "grazing": Pose(neck=-1.0, tail=-0.3),
    "browsing": Pose(neck=0.75, tilt=0.06, mouth=0.3),
    "feeding": Pose(neck=-0.85, tail=0.2, mouth=0.25, has_food=True),
    "head_up": Pose(neck=1.0, tail=0.1),
    "vocalizing": Pose(neck=0.8, tilt=0.07, mouth=1.0, tail=0.4),
    "resting": Pose(neck=-0.1, crouch=1.0, tail=-0.6, is_asleep=True),
    "grooming": Pose(neck=0.2, looks_back=True),
    "mating": Pose(neck=0.2, stride=0.1),
    "feeding_young": Pose(neck=-0.55, mouth=0.5, has_food=True),
    "carrying_food": Pose(neck=0.4, stride=0.4, mouth=0.4, has_food=True),
}


def make_pose(behaviour: str, frame: int, rng: Rng, looseness: float) -> Pose:
    """The pose at a frame; `rng` is the shot's, `looseness` (0..1) is how far it may stray."""
    base = _STILL[behaviour]
    speed = {"walking": 1.0, "trotting": 1.4, "running": 2.0}.get(behaviour, 0.7)
    phase = rng.between(0, 1) + frame * speed / FRAMES_A_CYCLE
    swing = sine(phase)
    small = looseness * 0.16
    return replace(
        base,
        phase=phase,
        neck=base.neck + rng.around(small) + 0.06 * swing,
        tilt=base.tilt + rng.around(small * 0.15),
        mouth=base.mouth * (0.75 + 0.25 * swing) if base.mouth else 0.0,
        lean=base.lean + rng.around(small * 0.06) + 0.008 * base.stride * swing,
        bounce=base.stride * 2.5 * (1 + sine(phase * 2)),
        tail=base.tail + rng.around(small * 2),
        sway=0.03 * sine(phase) * (0.6 + 1.6 * base.stride),
    )

"""How does a body look while it does something?

A behaviour is a way the pose moves over frames; colour and place say nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fieldmark.data.world._dice import Dice, sine
from fieldmark.data.world._raster import Point

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
    foot: Point


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


def make_pose(behaviour: str, frame: int, dice: Dice, looseness: float) -> Pose:
    """The pose at a frame; `dice` is the shot's, `looseness` (0..1) is how far it may stray."""
    base = _STILL[behaviour]
    speed = {"walking": 1.0, "trotting": 1.4, "running": 2.0}.get(behaviour, 0.7)
    phase = dice.between(0, 1) + frame * speed / FRAMES_A_CYCLE
    swing = sine(phase)
    small = looseness * 0.16
    return replace(
        base,
        phase=phase,
        neck=base.neck + dice.around(small) + 0.06 * swing,
        tilt=base.tilt + dice.around(small * 0.15),
        mouth=base.mouth * (0.75 + 0.25 * swing) if base.mouth else 0.0,
        lean=base.lean + dice.around(small * 0.06) + 0.008 * base.stride * swing,
        bounce=base.stride * 2.5 * (1 + sine(phase * 2)),
        tail=base.tail + dice.around(small * 2),
        sway=0.03 * sine(phase) * (0.6 + 1.6 * base.stride),
    )

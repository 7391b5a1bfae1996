"""Composition of a photo: from a scene to polygons, who stands where and in which light.

A burst (one encounter) fixes place, light and position, which its shots and frames share; a shot
moves things a little; a frame moves the pose on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fieldmark.world.background import N_PANELS, PANEL_PX
from fieldmark.world.draw import draw_creature, props
from fieldmark.world.draw.appearance import (
    FRAMES_A_CYCLE,
    PAIRED,
    Anchors,
    Appearance,
    Pose,
    make_pose,
)
from fieldmark.world.draw.shapes import Layer, Pen, Placement
from fieldmark.world.rng import Rng
from fieldmark.world.scene import Scene
from fieldmark.world.species import Species
from fieldmark.world.taxonomy import PLANTS

SIZE_PX = 256
EXTENT = {
    "bird": 150.0, "mammal": 185.0, "fish": 132.0, "whale": 150.0, "beetle": 125.0,
    "butterfly": 142.0, "spider": 135.0, "lizard": 190.0, "herb": 135.0, "tree": 165.0,
    "mushroom": 105.0, "plankton": 135.0,
}  # fmt: skip
FROM_ABOVE = ("beetle", "butterfly", "spider", "plankton")
SWIMMERS = ("fish", "whale")


@dataclass(frozen=True, slots=True)
class Burst:
    """What stays the same over the shots of one encounter."""

    habitat: str
    view: str
    panel: int
    crop: tuple[int, int]
    is_mirrored: bool
    gains: tuple[int, int, int]
    """light: 128 = as painted"""
    place: Placement
    camera: str


def view_of(plan: str, condition: str) -> str:
    if condition == "herbarium":
        return "paper"
    if plan == "plankton":
        return "drop"
    return "top" if plan in FROM_ABOVE else "side"


def make_burst(seed: int, difficulty: float, species: Species, scene: Scene) -> Burst:
    rng = Rng(seed, "burst", species.index, scene.burst)
    plan = species.plan
    habitat = str(species.traits["habitat"])
    if rng.chance(0.3 * difficulty):
        habitat = rng.choice(plan.habitats)
    habitat = scene.background or habitat
    fixed = rng if scene.camera is None else Rng(seed, "camera", scene.camera)
    span = PANEL_PX - SIZE_PX
    panel, crop = fixed.below(N_PANELS), (fixed.below(span), span // 2 + fixed.below(span // 2))
    is_mirrored = fixed.chance(0.5)
    camera = f"camera-{scene.camera}" if scene.camera is not None else f"{habitat}-{panel}"
    return Burst(
        habitat=habitat,
        view=view_of(plan.name, scene.condition),
        panel=panel,
        crop=crop,
        is_mirrored=is_mirrored,
        gains=_light(rng, difficulty, scene.rating),
        place=_stand(rng, difficulty, plan.name, scene.rating),
        camera=camera,
    )


def _light(rng: Rng, difficulty: float, rating: int) -> tuple[int, int, int]:
    gain = 128 + rng.around(12 + 48 * difficulty)
    warm = rng.around(3 + 22 * difficulty)
    dim = 0.62 if rating <= 2 and rng.chance(0.6) else 1.0
    red, green, blue = (
        int(max(52.0, min(150.0, level * dim))) for level in (gain + warm, gain, gain - warm)
    )
    return red, green, blue


def _stand(rng: Rng, difficulty: float, plan: str, rating: int) -> Placement:
    share = rng.between(0.82 - 0.42 * difficulty, 0.86 - 0.1 * difficulty)
    share *= {1: 0.45, 2: 0.55, 3: 0.8, 4: 1.0, 5: 1.15}[rating]
    stray = 8 + 46 * difficulty
    x, low = SIZE_PX / 2 + rng.around(stray), rng.between(0.76, 0.9)
    is_flipped, turn = rng.chance(0.5), rng.around(0.02 * difficulty)
    y = SIZE_PX * low
    if plan in FROM_ABOVE:
        y, turn = (
            SIZE_PX / 2 + rng.around(stray * 0.7),
            rng.between(0, 0.5 * difficulty) + rng.between(-0.2, 0.1),
        )
    elif plan in SWIMMERS:
        y = SIZE_PX * (0.5 + rng.around(0.14))
    if plan in PLANTS:
        y = SIZE_PX * rng.between(0.88, 0.96)
    return Placement(x, y, SIZE_PX * share / EXTENT[plan], turn, is_flipped)


_PERCHES = frozenset(("pole", "sign", "in_hand"))
_UPRIGHT = _PERCHES | {"nest", "egg", "flower"}


@dataclass(frozen=True, slots=True)
class Cast:
    """The animals of a scene: the main one first."""

    looks: tuple[Appearance, ...]
    others: tuple[Appearance, ...] = ()
    """of other species"""


Box = tuple[int, int, int, int]
"""left, top, width, height in pixels"""


@dataclass(frozen=True, slots=True)
class Composition:
    layer: Layer
    box: Box
    """round the main animal; the whole picture where there is none"""


def compose(seed: int, difficulty: float, scene: Scene, burst: Burst, cast: Cast) -> Composition:
    """All that stands in front of the background."""
    index = cast.looks[0].species.index
    rng = Rng(seed, "shot", index, scene.burst, scene.shot)
    scenery = Rng(seed, "scenery", index, scene.burst)
    layer, extras = Layer(), frozenset(scene.extras)
    placement = _arranged(_moved(burst.place, scene, rng, difficulty), scene, cast)
    if "feather" in extras:
        return Composition(layer, _add_feather(layer, cast.looks[0], placement))
    _add_company(layer, scene, cast, (scenery, rng, difficulty))
    box = (0, 0, SIZE_PX, SIZE_PX)
    if scene.n_animals:
        pose = make_pose(scene.behaviour, scene.frame, rng, difficulty)
        box = _add_main(layer, scene, cast, placement, (pose, scenery))
    elif extras:
        pen = Pen()
        props.draw_behind(pen, extras, scenery, 0.0)
        props.draw_front(pen, extras - {"in_hand"}, scenery, (0.0, (0.0, 0.0)), True)
        layer.add(pen, placement)
    if scene.condition == "occluded" or (scene.rating <= 2 and scenery.chance(0.35)):
        pen = Pen()
        props.draw_cover(pen, scenery, SIZE_PX, box)
        layer.add(pen, Placement(0.0, 0.0, 1.0))
    return Composition(layer, box)


def _add_feather(layer: Layer, look: Appearance, placement: Placement) -> Box:
    pen, middle = Pen(), SIZE_PX / 2
    props.draw_feather(pen, look)
    spot = Placement(
        middle, middle, placement.scale * 1.1, placement.turn + 0.08, placement.is_flipped
    )
    return _box(_keep_inside(layer, pen, spot))


def _moved(placement: Placement, scene: Scene, rng: Rng, difficulty: float) -> Placement:
    """A shot is a little off the burst's position; a moving animal gets on with every frame."""
    ahead = {"walking": 2.0, "trotting": 3.0, "running": 5.0}.get(scene.behaviour, 0.0)
    step = ahead * (scene.frame % FRAMES_A_CYCLE - 4) * (-1 if placement.is_flipped else 1)
    return replace(
        placement,
        x=placement.x + rng.around(6) + step,
        y=placement.y + rng.around(3),
        scale=placement.scale * (1 + rng.around(0.03)),
        turn=placement.turn + rng.around(0.006 + 0.01 * difficulty),
    )


def _arranged(placement: Placement, scene: Scene, cast: Cast) -> Placement:
    """Room for what the main animal stands on and for those beside it."""
    extras = frozenset(scene.extras)
    if extras & _PERCHES:
        placement = replace(placement, y=SIZE_PX * 0.62)
    if extras & _UPRIGHT:
        placement = replace(placement, turn=0.0)
    if scene.condition == "herbarium":  # clear of the label
        placement = replace(placement, x=SIZE_PX * 0.42, y=min(placement.y, SIZE_PX * 0.8))
    if len(cast.looks) + len(cast.others) > 1:
        placement = replace(placement, scale=placement.scale * 0.74)
    if scene.behaviour == "feeding_young":
        placement = replace(placement, x=placement.x + (34 if placement.is_flipped else -34))
    return placement


def _floor(plan: str) -> float:
    """How far below the origin the feet are."""
    return 22.0 if plan in (*FROM_ABOVE, *SWIMMERS) else 0.0


def _add_main(
    layer: Layer, scene: Scene, cast: Cast, placement: Placement, how: tuple[Pose, Rng]
) -> Box:
    pose, scenery = how
    look, pen = cast.looks[0], Pen()
    plan, extras = look.species.plan.name, look.extras
    is_on_ground = plan not in (*FROM_ABOVE, *SWIMMERS) and not extras & _PERCHES
    if is_on_ground and scene.condition != "herbarium":
        pen.oval((4.0, 1.0), (52.0, 7.0), (20, 22, 20), 0.0, 90)
    props.draw_behind(pen, extras, scenery, _floor(plan))
    if scene.behaviour == "mating":
        layer.add(pen, placement)
        _add_partner(layer, cast.looks[1], pose, placement)
        pen, placement = Pen(), _mounted(placement, plan)
    if "dead" in extras:
        layer.add(pen, placement)
        pen, placement = Pen(), _on_its_back(placement, plan)
    begin = len(pen.points)
    anchors = draw_creature(pen, look, _held(pose, extras))
    last = len(pen.points)
    _add_things(pen, scene, look, anchors, (pose, scenery))
    box = _box(_keep_inside(layer, pen, placement)[begin:last])
    if scene.behaviour == "feeding_young":
        _add_young(layer, cast.looks[1], placement, anchors)
    return box


def _held(pose: Pose, extras: frozenset[str]) -> Pose:
    """The pose where something else decides it."""
    if "dead" in extras:
        return replace(pose, stride=0.5, crouch=0.0, neck=-0.2, mouth=0.0)
    if extras & {"nest", "in_hand"}:
        return replace(pose, crouch=1.0, neck=max(pose.neck, 0.2), stride=0.0)
    return pose


def _add_things(
    pen: Pen, scene: Scene, look: Appearance, anchors: Anchors, how: tuple[Pose, Rng]
) -> None:
    pose, scenery = how
    plan = look.species.plan.name
    if pose.has_food:
        props.draw_food(pen, anchors.mouth, plan)
    if scene.behaviour == "browsing":
        props.draw_bush(pen, anchors.mouth, scenery)
    is_tall = plan in ("bird", "mammal")
    props.draw_front(pen, look.extras, scenery, (_floor(plan), anchors.mouth), is_tall)
    if "dead" in look.extras:
        props.draw_flies(pen, scenery, anchors.back)


def _on_its_back(placement: Placement, plan: str) -> Placement:
    rise = 0.0 if plan in (*FROM_ABOVE, *SWIMMERS) else 62 * placement.scale
    return replace(placement, turn=placement.turn + 0.47, y=placement.y - rise)


def _mounted(placement: Placement, plan: str) -> Placement:
    side = -1 if placement.is_flipped else 1
    if plan in FROM_ABOVE:
        return replace(
            placement, x=placement.x - side * 30 * placement.scale, turn=placement.turn + 0.03
        )
    if plan in SWIMMERS:
        return replace(
            placement,
            x=placement.x - side * 10 * placement.scale,
            y=placement.y - 26 * placement.scale,
        )
    return replace(
        placement,
        x=placement.x - side * 26 * placement.scale,
        y=placement.y - 38 * placement.scale,
        turn=placement.turn - side * 0.05,
    )


def _add_partner(layer: Layer, look: Appearance, pose: Pose, placement: Placement) -> None:
    pen = Pen()
    draw_creature(pen, look, replace(pose, neck=0.0, stride=0.0))
    layer.add(pen, placement)


def _add_young(layer: Layer, look: Appearance, placement: Placement, anchors: Anchors) -> None:
    """A small one in front of the adult's mouth, looking up at it."""
    pen, plan = Pen(), look.species.plan.name
    child = draw_creature(pen, look, Pose(neck=0.9, mouth=1.0, tilt=0.08))
    side = -1 if placement.is_flipped else 1
    scale = placement.scale * 0.5
    x = (
        placement.x
        + side * (anchors.mouth[0] + 6) * placement.scale
        + side * child.mouth[0] * scale
    )
    y = placement.y + anchors.mouth[1] * placement.scale if plan in SWIMMERS else placement.y
    layer.add(pen, Placement(x, y, scale, 0.0, not placement.is_flipped))


def _add_company(layer: Layer, scene: Scene, cast: Cast, how: tuple[Rng, Rng, float]) -> None:
    """The rest of the group and animals of other species, further back and to the sides."""
    scenery, rng, difficulty = how
    is_paired = scene.behaviour in PAIRED
    group = [*cast.looks[2 if is_paired else 1 :], *cast.others]
    for number, look in enumerate(group):
        plan = look.species.plan
        can_do_it = scene.behaviour in plan.behaviours and not is_paired
        pose = make_pose(scene.behaviour if can_do_it else "standing", scene.frame, rng, difficulty)
        pen = Pen()
        draw_creature(pen, look, pose)
        _keep_inside(layer, pen, _beside(number, plan.name, scenery))


def _beside(number: int, plan: str, scenery: Rng) -> Placement:
    side = -1 if number % 2 else 1
    far = scenery.between(0.28, 0.4) * (1 + 0.4 * (number // 2))
    scale = SIZE_PX * scenery.between(0.34, 0.46) / EXTENT[plan]
    is_floating = plan in (*FROM_ABOVE, *SWIMMERS)
    y = scenery.between(0.2, 0.8) if is_floating else scenery.between(0.6, 0.74)
    turn = scenery.around(0.3) if plan in FROM_ABOVE else 0.0
    return Placement(SIZE_PX * (0.5 + side * far), SIZE_PX * y, scale, turn, scenery.chance(0.5))


def _keep_inside(layer: Layer, pen: Pen, placement: Placement) -> NDArray[np.float64]:
    """Adds the drawing, shrunk and moved where it would leave the picture; its points there."""
    points = placement.apply(np.array(pen.points, dtype=np.float64))
    left, top = (max(-400.0, edge) for edge in points.min(axis=0).tolist())
    right = min(650.0, float(points[:, 0].max()))
    wide = right - left if right - left < 2 * SIZE_PX else 0.0  # wires of a pole may leave
    shrink = max(wide, placement.y - top) / (SIZE_PX * 0.97)
    if shrink > 1:
        foot = np.array([placement.x, placement.y])
        points = (points - foot) / shrink + foot
        left, right = (placement.x + (edge - placement.x) / shrink for edge in (left, right))
        top = placement.y + (top - placement.y) / shrink
    if wide:
        points[:, 0] += max(0.0, 3 - left) - max(0.0, right - SIZE_PX + 3)
    points[:, 1] += max(0.0, 3 - top)
    layer.add_points(pen, points)
    return points


def _box(points: NDArray[np.float64]) -> Box:
    inside = np.clip(points, 0, SIZE_PX)
    left, top = (int(edge) for edge in inside.min(axis=0))
    right, bottom = (int(edge) for edge in inside.max(axis=0))
    return left, top, max(1, right - left), max(1, bottom - top)

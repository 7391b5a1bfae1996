"""Who stands where: from a scene to polygons in a picture.

The burst says where; a shot moves things a little; a frame moves the pose on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fieldmark.data.world import _props
from fieldmark.data.world._burst import EXTENT, FROM_ABOVE, SIZE_PX, SWIMMERS, Burst
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._draw_bird import draw_bird
from fieldmark.data.world._draw_fish import draw_fish, draw_whale
from fieldmark.data.world._draw_herb import draw_herb
from fieldmark.data.world._draw_insect import draw_beetle, draw_butterfly, draw_spider
from fieldmark.data.world._draw_lizard import draw_lizard
from fieldmark.data.world._draw_mammal import draw_mammal
from fieldmark.data.world._draw_plant import draw_tree
from fieldmark.data.world._draw_small import draw_mushroom, draw_plankton
from fieldmark.data.world._look import Look
from fieldmark.data.world._pose import FRAMES_A_CYCLE, PAIRED, Anchors, Pose, make_pose
from fieldmark.data.world._scene import Scene
from fieldmark.data.world._shape import Layer, Pen, Place

_DRAW: dict[str, Callable[[Pen, Look, Pose], Anchors]] = {
    "bird": draw_bird, "mammal": draw_mammal, "fish": draw_fish, "whale": draw_whale,
    "beetle": draw_beetle, "butterfly": draw_butterfly, "spider": draw_spider,
    "lizard": draw_lizard,
    "herb": draw_herb, "tree": draw_tree, "mushroom": draw_mushroom, "plankton": draw_plankton,
}  # fmt: skip
_PERCHES = frozenset(("pole", "sign", "in_hand"))
_UPRIGHT = _PERCHES | {"nest", "egg", "flower"}


@dataclass(frozen=True, slots=True)
class Cast:
    """The animals of a scene: the main one first."""

    looks: tuple[Look, ...]
    others: tuple[Look, ...] = ()
    """of other species"""


Box = tuple[int, int, int, int]
"""left, top, width, height in pixels"""


@dataclass(frozen=True, slots=True)
class Staged:
    layer: Layer
    box: Box
    """round the main animal; the whole picture where there is none"""


def stage(seed: int, difficulty: float, scene: Scene, burst: Burst, cast: Cast) -> Staged:
    """All that stands in front of the background."""
    index = cast.looks[0].species.index
    dice = Dice(seed, "shot", index, scene.burst, scene.shot)
    scenery = Dice(seed, "scenery", index, scene.burst)
    layer, extras = Layer(), frozenset(scene.extras)
    place = _arranged(_moved(burst.place, scene, dice, difficulty), scene, cast)
    if "feather" in extras:
        return Staged(layer, _add_feather(layer, cast.looks[0], place))
    _add_company(layer, scene, cast, (scenery, dice, difficulty))
    box = (0, 0, SIZE_PX, SIZE_PX)
    if scene.n_animals:
        pose = make_pose(scene.behaviour, scene.frame, dice, difficulty)
        box = _add_main(layer, scene, cast, place, (pose, scenery))
    elif extras:
        pen = Pen()
        _props.draw_behind(pen, extras, scenery, 0.0)
        _props.draw_front(pen, extras - {"in_hand"}, scenery, (0.0, (0.0, 0.0)), True)
        layer.add(pen, place)
    if scene.condition == "occluded" or (scene.rating <= 2 and scenery.chance(0.35)):
        pen = Pen()
        _props.draw_cover(pen, scenery, SIZE_PX, box)
        layer.add(pen, Place(0.0, 0.0, 1.0))
    return Staged(layer, box)


def _add_feather(layer: Layer, look: Look, place: Place) -> Box:
    pen, middle = Pen(), SIZE_PX / 2
    _props.draw_feather(pen, look)
    spot = Place(middle, middle, place.scale * 1.1, place.turn + 0.08, place.is_flipped)
    return _box(_keep_inside(layer, pen, spot))


def _moved(place: Place, scene: Scene, dice: Dice, difficulty: float) -> Place:
    """A shot is a little off the burst's position; a moving animal gets on with every frame."""
    ahead = {"walking": 2.0, "trotting": 3.0, "running": 5.0}.get(scene.behaviour, 0.0)
    step = ahead * (scene.frame % FRAMES_A_CYCLE - 4) * (-1 if place.is_flipped else 1)
    return replace(
        place,
        x=place.x + dice.around(6) + step,
        y=place.y + dice.around(3),
        scale=place.scale * (1 + dice.around(0.03)),
        turn=place.turn + dice.around(0.006 + 0.01 * difficulty),
    )


def _arranged(place: Place, scene: Scene, cast: Cast) -> Place:
    """Room for what the main animal stands on and for those beside it."""
    extras = frozenset(scene.extras)
    if extras & _PERCHES:
        place = replace(place, y=SIZE_PX * 0.62)
    if extras & _UPRIGHT:
        place = replace(place, turn=0.0)
    if scene.condition == "herbarium":  # clear of the label
        place = replace(place, x=SIZE_PX * 0.42, y=min(place.y, SIZE_PX * 0.8))
    if len(cast.looks) + len(cast.others) > 1:
        place = replace(place, scale=place.scale * 0.74)
    if scene.behaviour == "feeding_young":
        place = replace(place, x=place.x + (34 if place.is_flipped else -34))
    return place


def _floor(plan: str) -> float:
    """How far below the origin the feet are."""
    return 22.0 if plan in (*FROM_ABOVE, *SWIMMERS) else 0.0


def _add_main(layer: Layer, scene: Scene, cast: Cast, place: Place, how: tuple[Pose, Dice]) -> Box:
    pose, scenery = how
    look, pen = cast.looks[0], Pen()
    plan, extras = look.species.plan.name, look.extras
    is_on_ground = plan not in (*FROM_ABOVE, *SWIMMERS) and not extras & _PERCHES
    if is_on_ground and scene.condition != "herbarium":
        pen.oval((4.0, 1.0), (52.0, 7.0), (20, 22, 20), 0.0, 90)
    _props.draw_behind(pen, extras, scenery, _floor(plan))
    if scene.behaviour == "mating":
        layer.add(pen, place)
        _add_partner(layer, cast.looks[1], pose, place)
        pen, place = Pen(), _mounted(place, plan)
    if "dead" in extras:
        layer.add(pen, place)
        pen, place = Pen(), _on_its_back(place, plan)
    first = len(pen.points)
    anchors = _DRAW[plan](pen, look, _held(pose, extras))
    last = len(pen.points)
    _add_things(pen, scene, look, anchors, (pose, scenery))
    box = _box(_keep_inside(layer, pen, place)[first:last])
    if scene.behaviour == "feeding_young":
        _add_young(layer, cast.looks[1], place, anchors)
    return box


def _held(pose: Pose, extras: frozenset[str]) -> Pose:
    """The pose where something else decides it."""
    if "dead" in extras:
        return replace(pose, stride=0.5, crouch=0.0, neck=-0.2, mouth=0.0)
    if extras & {"nest", "in_hand"}:
        return replace(pose, crouch=1.0, neck=max(pose.neck, 0.2), stride=0.0)
    return pose


def _add_things(
    pen: Pen, scene: Scene, look: Look, anchors: Anchors, how: tuple[Pose, Dice]
) -> None:
    pose, scenery = how
    plan = look.species.plan.name
    if pose.has_food:
        _props.draw_food(pen, anchors.mouth, plan)
    if scene.behaviour == "browsing":
        _props.draw_bush(pen, anchors.mouth, scenery)
    is_tall = plan in ("bird", "mammal")
    _props.draw_front(pen, look.extras, scenery, (_floor(plan), anchors.mouth), is_tall)
    if "dead" in look.extras:
        _props.draw_flies(pen, scenery, anchors.back)


def _on_its_back(place: Place, plan: str) -> Place:
    rise = 0.0 if plan in (*FROM_ABOVE, *SWIMMERS) else 62 * place.scale
    return replace(place, turn=place.turn + 0.47, y=place.y - rise)


def _mounted(place: Place, plan: str) -> Place:
    side = -1 if place.is_flipped else 1
    if plan in FROM_ABOVE:
        return replace(place, x=place.x - side * 30 * place.scale, turn=place.turn + 0.03)
    if plan in SWIMMERS:
        return replace(place, x=place.x - side * 10 * place.scale, y=place.y - 26 * place.scale)
    return replace(
        place,
        x=place.x - side * 26 * place.scale,
        y=place.y - 38 * place.scale,
        turn=place.turn - side * 0.05,
    )


def _add_partner(layer: Layer, look: Look, pose: Pose, place: Place) -> None:
    pen = Pen()
    _DRAW[look.species.plan.name](pen, look, replace(pose, neck=0.0, stride=0.0))
    layer.add(pen, place)


def _add_young(layer: Layer, look: Look, place: Place, anchors: Anchors) -> None:
    """A small one in front of the adult's mouth, looking up at it."""
    pen, plan = Pen(), look.species.plan.name
    child = _DRAW[plan](pen, look, Pose(neck=0.9, mouth=1.0, tilt=0.08))
    side = -1 if place.is_flipped else 1
    scale = place.scale * 0.5
    x = place.x + side * (anchors.mouth[0] + 6) * place.scale + side * child.mouth[0] * scale
    y = place.y + anchors.mouth[1] * place.scale if plan in SWIMMERS else place.y
    layer.add(pen, Place(x, y, scale, 0.0, not place.is_flipped))


def _add_company(layer: Layer, scene: Scene, cast: Cast, how: tuple[Dice, Dice, float]) -> None:
    """The rest of the group and animals of other species, further back and to the sides."""
    scenery, dice, difficulty = how
    is_paired = scene.behaviour in PAIRED
    group = [*cast.looks[2 if is_paired else 1 :], *cast.others]
    for number, look in enumerate(group):
        plan = look.species.plan
        can_do_it = scene.behaviour in plan.behaviours and not is_paired
        pose = make_pose(
            scene.behaviour if can_do_it else "standing", scene.frame, dice, difficulty
        )
        pen = Pen()
        _DRAW[plan.name](pen, look, pose)
        _keep_inside(layer, pen, _beside(number, plan.name, scenery))


def _beside(number: int, plan: str, scenery: Dice) -> Place:
    side = -1 if number % 2 else 1
    far = scenery.between(0.28, 0.4) * (1 + 0.4 * (number // 2))
    scale = SIZE_PX * scenery.between(0.34, 0.46) / EXTENT[plan]
    is_floating = plan in (*FROM_ABOVE, *SWIMMERS)
    y = scenery.between(0.2, 0.8) if is_floating else scenery.between(0.6, 0.74)
    turn = scenery.around(0.3) if plan in FROM_ABOVE else 0.0
    return Place(SIZE_PX * (0.5 + side * far), SIZE_PX * y, scale, turn, scenery.chance(0.5))


def _keep_inside(layer: Layer, pen: Pen, place: Place) -> NDArray[np.float64]:
    """Adds the drawing, shrunk and moved where it would leave the picture; its points there."""
    points = place.apply(np.array(pen.points, dtype=np.float64))
    left, top = (max(-400.0, each) for each in points.min(axis=0).tolist())
    right = min(650.0, float(points[:, 0].max()))
    wide = right - left if right - left < 2 * SIZE_PX else 0.0  # wires of a pole may leave
    shrink = max(wide, place.y - top) / (SIZE_PX * 0.97)
    if shrink > 1:
        foot = np.array([place.x, place.y])
        points = (points - foot) / shrink + foot
        left, right = (place.x + (each - place.x) / shrink for each in (left, right))
        top = place.y + (top - place.y) / shrink
    if wide:
        points[:, 0] += max(0.0, 3 - left) - max(0.0, right - SIZE_PX + 3)
    points[:, 1] += max(0.0, 3 - top)
    layer.add_points(pen, points)
    return points


def _box(points: NDArray[np.float64]) -> Box:
    inside = np.clip(points, 0, SIZE_PX)
    left, top = (int(each) for each in inside.min(axis=0))
    right, bottom = (int(each) for each in inside.max(axis=0))
    return left, top, max(1, right - left), max(1, bottom - top)

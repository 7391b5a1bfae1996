"""Who stands where: from a scene to polygons in a picture.

A burst fixes place, light and position; a shot moves things a little; a frame moves the pose on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldmark.data.world import _props
from fieldmark.data.world._background import N_PANELS, PANEL_PX, WATERS
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._draw_bird import draw_bird
from fieldmark.data.world._draw_fish import draw_fish, draw_whale
from fieldmark.data.world._draw_insect import draw_beetle, draw_butterfly, draw_spider
from fieldmark.data.world._draw_lizard import draw_lizard
from fieldmark.data.world._draw_mammal import draw_mammal
from fieldmark.data.world._draw_plant import draw_herb, draw_tree
from fieldmark.data.world._draw_small import draw_mushroom, draw_plankton
from fieldmark.data.world._look import Look
from fieldmark.data.world._pose import Anchors, Pose, make_pose
from fieldmark.data.world._scene import Scene
from fieldmark.data.world._shape import Layer, Pen, Place
from fieldmark.data.world._species import Species
from fieldmark.data.world._taxonomy import PLANTS

SIZE_PX = 256
_DRAW: dict[str, Callable[[Pen, Look, Pose], Anchors]] = {
    "bird": draw_bird, "mammal": draw_mammal, "fish": draw_fish, "whale": draw_whale,
    "beetle": draw_beetle, "butterfly": draw_butterfly, "spider": draw_spider, "lizard": draw_lizard,
    "herb": draw_herb, "tree": draw_tree, "mushroom": draw_mushroom, "plankton": draw_plankton,
}  # fmt: skip
_EXTENT = {
    "bird": 150.0, "mammal": 185.0, "fish": 132.0, "whale": 150.0, "beetle": 125.0, "butterfly": 142.0,
    "spider": 135.0, "lizard": 190.0, "herb": 135.0, "tree": 165.0, "mushroom": 105.0, "plankton": 135.0,
}  # fmt: skip
FROM_ABOVE = ("beetle", "butterfly", "spider", "plankton")
SWIMMERS = ("fish", "whale")
_PERCHES = frozenset(("pole", "sign", "in_hand"))
_UPRIGHT = _PERCHES | {"nest", "egg", "flower"}


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
    place: Place
    camera: str


def view_of(plan: str, condition: str) -> str:
    if condition == "herbarium":
        return "paper"
    if plan == "plankton":
        return "drop"
    return "top" if plan in FROM_ABOVE else "side"


def make_burst(seed: int, difficulty: float, species: Species, scene: Scene) -> Burst:
    dice = Dice(seed, "burst", species.index, scene.burst)
    plan = species.plan
    habitat = str(species.traits["habitat"])
    if dice.chance(0.3 * difficulty):
        habitat = dice.choice(plan.habitats)
    habitat = scene.background or habitat
    fixed = dice if scene.camera is None else Dice(seed, "camera", scene.camera)
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
        gains=_light(dice, difficulty, scene.rating),
        place=_stand(dice, difficulty, plan.name, habitat, scene.rating),
        camera=camera,
    )


def _light(dice: Dice, difficulty: float, rating: int) -> tuple[int, int, int]:
    gain = 128 + dice.around(12 + 48 * difficulty)
    warm = dice.around(3 + 22 * difficulty)
    dim = 0.62 if rating <= 2 and dice.chance(0.6) else 1.0
    red, green, blue = (
        int(max(52.0, min(170.0, each * dim))) for each in (gain + warm, gain, gain - warm)
    )
    return red, green, blue


def _stand(dice: Dice, difficulty: float, plan: str, habitat: str, rating: int) -> Place:
    share = dice.between(0.82 - 0.42 * difficulty, 0.86 - 0.1 * difficulty)
    share *= {1: 0.45, 2: 0.55, 3: 0.8, 4: 1.0, 5: 1.15}[rating]
    stray = 8 + 46 * difficulty
    x, low = SIZE_PX / 2 + dice.around(stray), dice.between(0.76, 0.9)
    is_flipped, turn = dice.chance(0.5), dice.around(0.02 * difficulty)
    y = SIZE_PX * low
    if plan in FROM_ABOVE:
        y, turn = SIZE_PX / 2 + dice.around(stray * 0.7), dice.between(0, 0.5 * difficulty) + dice.between(-0.2, 0.1)
    elif plan in SWIMMERS or habitat in WATERS:
        y = SIZE_PX * (0.5 + dice.around(0.14)) if plan in SWIMMERS else y
    if plan in PLANTS:
        y = SIZE_PX * dice.between(0.88, 0.96)
    return Place(x, y, SIZE_PX * share / _EXTENT[plan], turn, is_flipped)


@dataclass(frozen=True, slots=True)
class Cast:
    """The animals of a scene: the main one first."""

    looks: tuple[Look, ...]
    others: tuple[Look, ...] = ()
    """of other species"""


def build_layer(seed: int, difficulty: float, scene: Scene, burst: Burst, cast: Cast) -> Layer:
    """All that stands in front of the background."""
    dice = Dice(seed, "shot", cast.looks[0].species.index, scene.burst, scene.shot)
    layer = Layer()
    extras = frozenset(scene.extras)
    place = _moved(burst.place, scene, dice, difficulty)
    if "feather" in extras:
        pen = Pen()
        _props.draw_feather(pen, cast.looks[0])
        layer.add(pen, Place(SIZE_PX / 2, SIZE_PX / 2, place.scale * 1.1, place.turn + 0.08, place.is_flipped))
        return layer
    scenery = Dice(seed, "scenery", cast.looks[0].species.index, scene.burst)
    if extras & _PERCHES:
        place = replace(place, y=SIZE_PX * 0.62)
    if extras & _UPRIGHT:
        place = replace(place, turn=0.0)
    if len(cast.looks) + len(cast.others) > 1:
        place = replace(place, scale=place.scale * 0.74)
    if scene.behaviour == "feeding_young":
        place = replace(place, x=place.x + (34 if place.is_flipped else -34))
    _add_company(layer, scene, cast, place, (scenery, dice, difficulty))
    if scene.n_animals:
        pose = make_pose(scene.behaviour, scene.frame, dice, difficulty)
        _add_main(layer, scene, cast, place, (pose, scenery))
    elif extras:
        pen = Pen()
        _props.draw_behind(pen, extras, scenery, 0.0)
        _props.draw_front(pen, extras - {"in_hand"}, scenery, 0.0, (0.0, 0.0))
        layer.add(pen, place)
    if scene.condition == "occluded" or (scene.rating <= 2 and scenery.chance(0.35)):
        pen = Pen()
        _props.draw_cover(pen, scenery, SIZE_PX, _box(layer))
        layer.add(pen, Place(0.0, 0.0, 1.0))
    return layer


def _moved(place: Place, scene: Scene, dice: Dice, difficulty: float) -> Place:
    """A shot is a little off the burst's position, and a moving animal gets on with every frame."""
    ahead = {"walking": 2.0, "trotting": 3.0, "running": 5.0}.get(scene.behaviour, 0.0)
    step = ahead * (scene.frame - 4) * (-1 if place.is_flipped else 1)
    return replace(
        place,
        x=place.x + dice.around(6) + step,
        y=place.y + dice.around(3),
        scale=place.scale * (1 + dice.around(0.03)),
        turn=place.turn + dice.around(0.006 + 0.01 * difficulty),
    )


def _floor(plan: str) -> float:
    """How far below the origin the feet are."""
    return 22.0 if plan in (*FROM_ABOVE, *SWIMMERS) else 0.0


def _add_main(layer: Layer, scene: Scene, cast: Cast, place: Place, how: tuple[Pose, Dice]) -> None:
    pose, scenery = how
    look, pen = cast.looks[0], Pen()
    plan = look.species.plan.name
    extras = look.extras
    if plan not in (*FROM_ABOVE, *SWIMMERS) and not extras & _PERCHES and scene.condition != "herbarium":
        pen.oval((4.0, 1.0), (52.0, 7.0), (20, 22, 20), 0.0, 90)
    _props.draw_behind(pen, extras, scenery, _floor(plan))
    if scene.behaviour == "mating" and len(cast.looks) > 1:
        layer.add(pen, place)
        _add_partner(layer, cast.looks[1], pose, place)
        pen, place = Pen(), _mounted(place, plan)
    if "dead" in extras:
        pose = replace(pose, stride=0.5, crouch=0.0, neck=-0.2, mouth=0.0)
        layer.add(pen, place)
        pen = Pen()
    elif extras & {"nest", "in_hand"}:
        pose = replace(pose, crouch=1.0, neck=max(pose.neck, 0.2), stride=0.0)
    anchors = _DRAW[plan](pen, look, pose)
    if pose.has_food:
        _props.draw_food(pen, anchors.mouth, plan)
    if scene.behaviour == "browsing":
        _props.draw_bush(pen, anchors.mouth, scenery)
    _props.draw_front(pen, extras, scenery, _floor(plan), anchors.mouth)
    if "dead" in extras:
        _props.draw_flies(pen, scenery, anchors.back)
        place = _on_its_back(place, plan)
    _keep_inside(layer, pen, place)
    if scene.behaviour == "feeding_young" and len(cast.looks) > 1:
        _add_young(layer, cast.looks[1], place, anchors)


def _on_its_back(place: Place, plan: str) -> Place:
    rise = 0.0 if plan in (*FROM_ABOVE, *SWIMMERS) else 62 * place.scale
    return replace(place, turn=place.turn + 0.47, y=place.y - rise)


def _mounted(place: Place, plan: str) -> Place:
    side = -1 if place.is_flipped else 1
    if plan in FROM_ABOVE:
        return replace(place, x=place.x - side * 30 * place.scale, turn=place.turn + 0.03)
    if plan in SWIMMERS:
        return replace(place, x=place.x - side * 10 * place.scale, y=place.y - 26 * place.scale)
    return replace(place, x=place.x - side * 26 * place.scale, y=place.y - 38 * place.scale, turn=place.turn - side * 0.05)


def _add_partner(layer: Layer, look: Look, pose: Pose, place: Place) -> None:
    pen = Pen()
    _DRAW[look.species.plan.name](pen, look, replace(pose, neck=0.0, stride=0.0))
    layer.add(pen, place)


def _add_young(layer: Layer, look: Look, place: Place, anchors: Anchors) -> None:
    """A small one in front of the adult's mouth, looking up at it."""
    pen = Pen()
    begging = Pose(neck=0.9, mouth=1.0, tilt=0.08)
    child = _DRAW[look.species.plan.name](pen, look, begging)
    side = -1 if place.is_flipped else 1
    scale = place.scale * 0.5
    x = place.x + side * (anchors.mouth[0] + 6) * place.scale + side * child.mouth[0] * scale
    y = place.y if look.species.plan.name not in SWIMMERS else place.y + anchors.mouth[1] * place.scale
    layer.add(pen, Place(x, y, scale, 0.0, not place.is_flipped))


def _add_company(layer: Layer, scene: Scene, cast: Cast, place: Place, how: tuple[Dice, Dice, float]) -> None:
    """The rest of the group and animals of other species, further back and to the sides."""
    scenery, dice, difficulty = how
    paired = scene.behaviour in ("mating", "feeding_young")
    group = [*cast.looks[2 if paired else 1 :], *cast.others]
    for number, look in enumerate(group):
        plan = look.species.plan
        side = -1 if number % 2 else 1
        far = scenery.between(0.28, 0.4) * (1 + 0.4 * (number // 2))
        scale = SIZE_PX * scenery.between(0.34, 0.46) / _EXTENT[plan.name]
        above = plan.name in (*FROM_ABOVE, *SWIMMERS)
        y = scenery.between(0.2, 0.8) if above else scenery.between(0.6, 0.74)
        spot = Place(SIZE_PX / 2 + side * far * SIZE_PX, y * SIZE_PX, scale, scenery.around(0.3) if above and plan.name in FROM_ABOVE else 0.0,
                     scenery.chance(0.5))  # fmt: skip
        pen = Pen()
        behaviour = scene.behaviour if scene.behaviour in plan.behaviours and not paired else "standing"
        _DRAW[plan.name](pen, look, make_pose(behaviour, scene.frame, dice, difficulty))
        _keep_inside(layer, pen, spot)


def _keep_inside(layer: Layer, pen: Pen, place: Place) -> None:
    """Adds the drawing, shrunk and moved where it would leave the picture."""
    points = place.apply(np.array(pen.points, dtype=np.float64))
    left, top = (max(-400.0, each) for each in points.min(axis=0).tolist())
    right, bottom = (min(650.0, each) for each in points.max(axis=0).tolist())
    is_grounded = bottom > SIZE_PX * 1.4  # a pole or a stalk that leaves the picture below
    shrink = max(right - left, 1.0 if is_grounded else place.y - top) / (SIZE_PX * 0.97)
    if 1 < shrink < 2:
        foot = np.array([place.x, place.y])
        points = (points - foot) / shrink + foot
        left, right = (place.x + (each - place.x) / shrink for each in (left, right))
        top = place.y + (top - place.y) / shrink
    if right - left < SIZE_PX:
        points[:, 0] += max(0.0, 3 - left) - max(0.0, right - SIZE_PX + 3)
    if not is_grounded:
        points[:, 1] += max(0.0, 3 - top)
    layer.add_points(pen, points)


def _box(layer: Layer) -> tuple[float, float, float, float]:
    points = np.clip(np.concatenate([*layer.chunks, np.array([[128.0, 128.0]])]), 0, SIZE_PX)
    left, top, right, bottom = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
    return left, top, right, bottom

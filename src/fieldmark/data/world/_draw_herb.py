"""How are flowering herbs drawn? Growing upwards from the origin."""

from __future__ import annotations

from fieldmark.data.world._colour import dark, light, mix
from fieldmark.data.world._dice import Dice
from fieldmark.data.world._draw_plant import draw_leaf
from fieldmark.data.world._look import Look
from fieldmark.data.world._pattern import paint_markings, paint_pattern
from fieldmark.data.world._pose import Anchors, Pose
from fieldmark.data.world._raster import Colour
from fieldmark.data.world._shape import Pen, Tube, reach, tube

_GREEN: Colour = (70, 124, 52)


def draw_herb(pen: Pen, look: Look, pose: Pose) -> Anchors:
    dice, form = look.dice("growth"), look.form
    height = 92 * (0.7 + 0.3 * form["limb"])
    lean = 0.25 + pose.lean * 2 + dice.around(0.012)
    middle = reach((0.0, 0.0), height * 0.5, lean)
    top = reach(middle, height * 0.5, lean + dice.around(0.03))
    stem = tube([(0.0, 0.0, 2.4), (*middle, 2.0), (*top, 1.6)])
    for pair in range(3):
        for side in (-1, 1):
            root = stem.at(0.08 + 0.2 * pair + 0.05 * side, 0.5)
            turn = 0.25 - side * dice.between(0.12, 0.2)
            length = 34 * (1 - 0.2 * pair) * form["ear"]
            draw_leaf(
                pen,
                look,
                root,
                (length, length * 0.2, turn),
                mix(_GREEN, dark(_GREEN), dice.between(0, 0.5)),
            )
    pen.blob(stem.outline(), mix(_GREEN, (120, 100, 60), 0.2))
    _stem_marks(pen, look, stem)
    flower = {"daisy": _daisy, "bell": _bells, "spike": _spike}[look.species.kind]
    flower(pen, look, stem, dice)
    paint_markings(pen, look, tube([(top[0] - 14, top[1], 12.0), (top[0] + 14, top[1], 12.0)]), 1.4)
    return Anchors(top, top, (0.0, 0.0))


def _stem_marks(pen: Pen, look: Look, stem: Tube) -> None:
    for step in range(9):
        x, y = stem.at(0.12 + step * 0.09, 0.5)
        side = 1 if step % 2 else -1
        if look.species.has("thorns"):
            pen.facet([(x, y - 2), (x + side * 7, y - 4), (x, y + 3)], (120, 70, 50))
    if look.species.has("hairy_stem"):
        for step in range(12):
            x, y = stem.at(0.1 + step * 0.075, 0.5)
            pen.facet([(x - 6, y - 2), (x, y - 0.4), (x + 6, y - 2), (x, y + 0.5)], (214, 218, 190))


def _daisy(pen: Pen, look: Look, stem: Tube, dice: Dice) -> None:
    centre = stem.at(1.0, 0.5)
    size = (9 if look.is_young else 25) * look.form["head"]
    petals = 11
    for petal in range(petals):
        turn = petal / petals + dice.around(0.01)
        blade = tube(
            [
                (*reach(centre, size * 0.2, turn), size * 0.07),
                (*reach(centre, size * 0.65, turn), size * 0.17),
                (*reach(centre, size, turn), size * 0.07),
            ]
        )
        pen.blob(blade.outline(), dark(look.main, 0.18) if petal % 2 else look.main)
        _petal_paint(pen, look, blade, size)
    pen.oval(centre, (size * 0.32, size * 0.3), _heart(look))
    pen.oval(
        (centre[0] - size * 0.06, centre[1] - size * 0.08),
        (size * 0.16, size * 0.14),
        light(_heart(look), 0.3),
    )


def _heart(look: Look) -> Colour:
    return (62, 36, 28) if look.species.has("dark_centre") else look.second


def _petal_paint(pen: Pen, look: Look, blade: Tube, size: float) -> None:
    if look.species.traits["pattern"] == "spotted":
        pen.oval(blade.at(0.6, 0.5), (size * 0.06, size * 0.06), dark(look.second, 0.2))
    elif look.species.traits["pattern"] == "bordered":
        pen.blob(blade.patch(0.8, 1.0, 0.0, 1.0, 1), look.second)


def _bells(pen: Pen, look: Look, stem: Tube, dice: Dice) -> None:
    size = (8 if look.is_young else 17) * look.form["head"]
    for flower, u in enumerate((0.62, 0.8, 1.0)):
        side = -1 if flower % 2 else 1
        x, y = stem.at(u, 0.5)
        tip = (x + side * size * (1.0 + dice.around(0.3)), y - size * 0.3)
        pen.stroke([(x, y, 1.1), ((x + tip[0]) / 2, y - size * 0.6, 1.0), (*tip, 0.8)], _GREEN)
        bell = tube(
            [
                (tip[0], tip[1], size * 0.3),
                (tip[0], tip[1] + size * 0.5, size * 0.55),
                (tip[0], tip[1] + size * 1.1, size * 0.62),
                (tip[0], tip[1] + size * 1.35, size * 0.85),
            ]
        )
        pen.blob(bell.outline(), look.main)
        pen.blob(bell.patch(0.1, 0.95, 0.44, 0.56), dark(look.main, 0.2))
        pen.oval((tip[0], tip[1] + size * 1.36), (size * 0.62, size * 0.2), _heart(look))
        paint_pattern(pen, look, bell, dark(look.second, 0.1), size * 0.1, (0.2, 0.9, 0.1, 0.9))
        if look.species.traits["pattern"] == "bordered":
            pen.blob(bell.patch(0.84, 0.98, 0.0, 1.0, 2), look.second)


def _spike(pen: Pen, look: Look, stem: Tube, dice: Dice) -> None:
    size = (3.4 if look.is_young else 6.6) * look.form["head"]
    for step in range(8):
        u = 0.5 + step * 0.07
        for side in (-1, 1):
            x, y = stem.at(u, 0.5)
            far = size * (1.3 - 0.09 * step)
            place = (x + side * far * 0.8 + dice.around(1.0), y + dice.around(1.5))
            pen.oval(
                place,
                (far, far * 0.75),
                look.main if side < 0 else dark(look.main, 0.2),
                0.08 * side,
            )
            pen.oval(place, (far * 0.32, far * 0.3), _heart(look))
            if look.species.traits["pattern"] != "plain":
                pen.oval(
                    (place[0] + side * far * 0.6, place[1]), (far * 0.25, far * 0.3), look.second
                )

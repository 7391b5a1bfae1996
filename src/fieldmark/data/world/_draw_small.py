"""How are mushrooms and plankton drawn? Mushrooms grow up from the origin, cells float about it."""

from __future__ import annotations

from fieldmark.data.world._colour import dark, light, mix
from fieldmark.data.world._dice import Dice, sine
from fieldmark.data.world._draw_plant import paint_sick
from fieldmark.data.world._look import Look
from fieldmark.data.world._pattern import paint_markings, paint_pattern
from fieldmark.data.world._pose import Anchors, Pose
from fieldmark.data.world._raster import Colour, Point
from fieldmark.data.world._shape import Pen, Tube, reach, tube

_CLEAR = 190  # of 255: cells let some light through


def draw_mushroom(pen: Pen, look: Look, pose: Pose) -> Anchors:
    young = 0.72 if look.is_young else 1.0
    height, wide = 54 * look.form["limb"] * young, 34 * look.form["stout"] * young
    lean = 0.25 + pose.lean * 2 + look.dice("growth").around(0.02)
    x, y = top = reach((0.0, 0.0), height, lean)
    flesh = light(look.second, 0.15)
    middle = reach((0.0, 0.0), height * 0.4, lean)
    stem = pen.stroke([(0.0, 2.0, 9.0), (*middle, 6.6), (*top, 6.0)], flesh)
    _stem_paint(pen, look, stem, flesh)
    _gills(pen, look, top, wide, flesh)
    tall = wide * (0.95 if look.species.kind == "bonnet" else 0.62) / young
    profile = (
        (-1.0, 0.16, 0.2),
        (-0.72, 0.36, 0.42),
        (0.0, 0.45, 0.62),
        (0.72, 0.36, 0.42),
        (1.0, 0.16, 0.2),
    )
    cap = tube([(x + wide * dx, y - tall * dy, tall * half) for dx, dy, half in profile], 0.9)
    pen.blob(cap.outline(), look.main)
    _cap_paint(pen, look, cap, wide)
    return Anchors(top, cap.at(0.5, 0.0), (0.0, 0.0))


def _stem_paint(pen: Pen, look: Look, stem: Tube, flesh: Colour) -> None:
    pen.blob(stem.patch(0.0, 1.0, 0.62, 1.0), dark(flesh, 0.18))
    if look.species.has("volva"):
        sheath = [(-13, 3), (-12, -12), (-6, -7), (0, -14), (6, -7), (12, -12), (13, 3)]
        pen.blob(sheath, light(flesh, 0.3))
    if look.species.has("ring"):
        x, y = stem.at(0.66, 0.5)
        ring = [(x - 11, y + 3), (x - 6, y - 3), (x + 6, y - 3), (x + 11, y + 3), (x, y + 6)]
        pen.blob(ring, light(flesh, 0.35))


def _gills(pen: Pen, look: Look, top: Point, wide: float, flesh: Colour) -> None:
    x, y = top
    gills = light(flesh, 0.5) if look.species.has("pale_gills") else dark(flesh, 0.35)
    pen.oval((x, y + 1), (wide * 0.96, wide * 0.24), gills)
    for step in range(-4, 5):
        low = y + wide * 0.2 * (1 - step * step / 22)
        pen.stroke(
            [(x + step * wide * 0.06, y - 1, 0.4), (x + step * wide * 0.2, low, 0.5)],
            dark(gills, 0.3),
        )


def _cap_paint(pen: Pen, look: Look, cap: Tube, wide: float) -> None:
    if look.species.traits["pattern"] == "striped":
        for step in range(9):
            u = 0.1 + step * 0.1
            pen.stroke(
                [(*cap.at(0.5 + (u - 0.5) * 0.4, 0.12), 0.5), (*cap.at(u, 0.86), 1.3)],
                dark(look.main, 0.35),
            )
    else:
        paint_pattern(pen, look, cap, light(look.second, 0.2), wide * 0.085, (0.1, 0.9, 0.1, 0.85))
    if look.species.has("dark_centre"):
        pen.oval(cap.at(0.5, 0.22), (wide * 0.3, wide * 0.13), dark(look.main, 0.5))
    paint_markings(pen, look, cap, wide * 0.06)
    pen.oval(cap.at(0.36, 0.25), (wide * 0.2, wide * 0.06), light(look.main, 0.6), -0.04, 120)
    if look.is_sick:
        paint_sick(pen, look, cap, wide * 0.6)


def draw_plankton(pen: Pen, look: Look, pose: Pose) -> Anchors:
    dice = look.dice("growth")
    draw = {"disc": _disc, "chain": _chain, "horned": _horned, "boat": _boat}[look.species.kind]
    body = draw(pen, look, dice)
    if look.species.has("flagellum"):
        x, y = body.at(0.0, 0.5)
        wave = 9 * sine(pose.phase)
        pen.stroke(
            [
                (x, y, 1.2),
                (x - 20, y + wave, 1.0),
                (x - 38, y - wave, 0.8),
                (x - 60, y + wave, 0.5),
            ],
            dark(look.main, 0.5),
        )
    paint_pattern(pen, look, body, mix(look.second, look.main, 0.2), 4.0, (0.12, 0.88, 0.15, 0.85))
    paint_markings(pen, look, body, 2.2)
    if look.species.has("dark_centre"):
        pen.oval(body.at(0.5, 0.5), (7, 6), dark(look.main, 0.6))
    if look.species.has("oil_drop"):
        place = body.at(0.68, 0.4)
        pen.oval(place, (5, 5), (250, 214, 90))
        pen.oval((place[0] - 1.5, place[1] - 1.5), (1.6, 1.6), (255, 250, 220))
    return Anchors(body.at(1.0, 0.5), body.at(0.5, 0.0), (0.0, 0.0))


def _spines(pen: Pen, look: Look, places: list[tuple[Point, float]], length: float) -> None:
    for place, turn in places:
        pen.stroke([(*place, 1.3), (*reach(place, length, turn), 0.4)], dark(look.main, 0.4))


def _disc(pen: Pen, look: Look, dice: Dice) -> Tube:
    size = 36 * (0.8 + 0.2 * look.form["stout"]) * (0.75 if look.is_young else 1.0)
    if look.species.has("spines"):
        _spines(
            pen,
            look,
            [(reach((0, 0), size * 0.95, step / 16), step / 16) for step in range(16)],
            15.0,
        )
    pen.oval((0, 0), (size, size), dark(look.main, 0.35), 0.0, _CLEAR)
    pen.oval((0, 0), (size * 0.9, size * 0.9), light(look.main, 0.25), 0.0, _CLEAR)
    for step in range(18):
        turn = step / 18 + dice.around(0.004)
        pen.stroke(
            [(*reach((0, 0), size * 0.42, turn), 0.5), (*reach((0, 0), size * 0.88, turn), 0.9)],
            mix(look.main, look.second, 0.6),
        )
    pen.oval((0, 0), (size * 0.38, size * 0.38), mix(look.main, look.second, 0.4))
    return tube([(-size * 0.8, 0, size * 0.5), (0, 0, size * 0.8), (size * 0.8, 0, size * 0.5)])


def _chain(pen: Pen, look: Look, dice: Dice) -> Tube:
    cells = 3 if look.is_young else 6
    wide, tall = 19.0, 14 * look.form["stout"]
    left = -cells * wide / 2
    for cell in range(cells):
        x = left + (cell + 0.5) * wide
        y = 4 * sine(cell / 9 + dice.around(0.02))
        box = tube(
            [(x - wide * 0.46, y, tall * 0.85), (x, y, tall), (x + wide * 0.46, y, tall * 0.85)]
        )
        if look.species.has("spines"):
            _spines(
                pen,
                look,
                [
                    (box.at(0.0, 0.0), 0.3),
                    (box.at(1.0, 1.0), 0.8),
                    (box.at(1, 0), 0.2),
                    (box.at(0, 1), 0.7),
                ],
                16.0,
            )
        pen.facet(box.outline(), dark(look.main, 0.4), _CLEAR)
        pen.facet(box.patch(0.12, 0.88, 0.1, 0.9, 1), light(look.main, 0.3), _CLEAR)
        pen.oval((x, y), (wide * 0.24, tall * 0.5), mix(look.second, look.main, 0.3))
    return tube([(left, 0, tall * 0.8), (0, 0, tall * 0.85), (-left, 0, tall * 0.8)])


def _horned(pen: Pen, look: Look, dice: Dice) -> Tube:
    size = 20 * (0.8 + 0.2 * look.form["stout"])
    horn = (28 if look.is_young else 46) * (0.8 + 0.2 * look.form["tail"])
    paint = dark(look.main, 0.25)
    pen.stroke(
        [(size * 0.4, 0, 7.0), (size + horn * 0.5, 1, 3.0), (size + horn, dice.around(4), 1.0)],
        paint,
        _CLEAR,
    )
    for side in (-1, 1):
        pen.stroke(
            [
                (-size * 0.4, side * 8, 6.0),
                (-size - horn * 0.3, side * 14, 3.2),
                (-size - horn * 0.2 + side * 4, side * (20 + horn * 0.4), 0.8),
            ],
            paint,
            _CLEAR,
        )
    if look.species.has("spines"):
        _spines(
            pen, look, [((size * 0.3, -size * 0.7), 0.2), ((size * 0.3, size * 0.7), 0.8)], 14.0
        )
    body = tube(
        [
            (-size, 0, size * 0.62),
            (-size * 0.4, 0, size),
            (size * 0.5, 0, size * 0.8),
            (size * 1.1, 0, size * 0.35),
        ]
    )
    pen.blob(body.outline(), look.main, 225)
    pen.blob(body.patch(0.4, 0.47, 0.0, 1.0, 2), dark(look.main, 0.5))
    return body


def _boat(pen: Pen, look: Look, dice: Dice) -> Tube:
    size = 52 * (0.75 if look.is_young else 1.0)
    wide = 17 * look.form["stout"]
    bend = dice.around(5)
    body = tube(
        [
            (-size, 0, 1.5),
            (-size * 0.6, bend, wide * 0.75),
            (0, bend * 1.4, wide),
            (size * 0.6, bend, wide * 0.75),
            (size, 0, 1.5),
        ]
    )
    if look.species.has("spines"):
        _spines(pen, look, [(body.at(0.02, 0.5), 0.5), (body.at(0.98, 0.5), 0.0)], 26.0)
    pen.blob(body.outline(), dark(look.main, 0.35), _CLEAR)
    pen.blob(body.patch(0.05, 0.95, 0.1, 0.9, 5), light(look.main, 0.3), _CLEAR)
    pen.blob(body.patch(0.06, 0.94, 0.46, 0.54, 5), dark(look.main, 0.5))
    for step in range(13):
        u = 0.14 + step * 0.06
        pen.stroke([(*body.at(u, 0.14), 0.5), (*body.at(u, 0.4), 0.5)], dark(look.main, 0.3))
        pen.stroke([(*body.at(u, 0.6), 0.5), (*body.at(u, 0.86), 0.5)], dark(look.main, 0.3))
    return body

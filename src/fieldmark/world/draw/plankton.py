"""Plankton: single cells, drawn about the origin."""

from __future__ import annotations

from fieldmark.world.colour import dark, light, mix
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Pen, Tube, reach, tube
from fieldmark.world.rng import Rng, sine

_CLEAR = 190  # of 255: cells let some light through


def draw_plankton(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    rng = look.rng("growth")
    draw = {"disc": _disc, "chain": _chain, "horned": _horned, "boat": _boat}[look.species.kind]
    body = draw(pen, look, rng)
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
        spot = body.at(0.68, 0.4)
        pen.oval(spot, (5, 5), (250, 214, 90))
        pen.oval((spot[0] - 1.5, spot[1] - 1.5), (1.6, 1.6), (255, 250, 220))
    return Anchors(body.at(1.0, 0.5), body.at(0.5, 0.0))


def _spines(pen: Pen, look: Appearance, roots: list[tuple[Point, float]], length: float) -> None:
    for root, turn in roots:
        pen.stroke([(*root, 1.3), (*reach(root, length, turn), 0.4)], dark(look.main, 0.4))


def _disc(pen: Pen, look: Appearance, rng: Rng) -> Tube:
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
        turn = step / 18 + rng.around(0.004)
        line = [(*reach((0, 0), size * 0.42, turn), 0.5), (*reach((0, 0), size * 0.88, turn), 0.9)]
        pen.stroke(line, mix(look.main, look.second, 0.6))
    pen.oval((0, 0), (size * 0.38, size * 0.38), mix(look.main, look.second, 0.4))
    return tube([(-size * 0.8, 0, size * 0.5), (0, 0, size * 0.8), (size * 0.8, 0, size * 0.5)])


def _chain(pen: Pen, look: Appearance, rng: Rng) -> Tube:
    cells = 3 if look.is_young else 6
    wide, tall = 19.0, 14 * look.form["stout"]
    left = -cells * wide / 2
    for cell in range(cells):
        x = left + (cell + 0.5) * wide
        y = 4 * sine(cell / 9 + rng.around(0.02))
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


def _horned(pen: Pen, look: Appearance, rng: Rng) -> Tube:
    size = 20 * (0.8 + 0.2 * look.form["stout"])
    horn = (28 if look.is_young else 46) * (0.8 + 0.2 * look.form["tail"])
    paint = dark(look.main, 0.25)
    line = [(size * 0.4, 0, 7.0), (size + horn * 0.5, 1, 3.0), (size + horn, rng.around(4), 1.0)]
    pen.stroke(line, paint, _CLEAR)
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


def _boat(pen: Pen, look: Appearance, rng: Rng) -> Tube:
    size = 52 * (0.75 if look.is_young else 1.0)
    wide = 17 * look.form["stout"]
    bend = rng.around(5)
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

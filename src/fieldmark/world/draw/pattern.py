"""Coat patterns and markings: the species' pattern, laid out anew in each individual.

A histogram sees the same paint on all individuals of a species; only where it lies differs.
"""

from __future__ import annotations

from fieldmark.world.colour import Colour, brightness, dark, light, mix
from fieldmark.world.draw.appearance import Appearance
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Pen, Tube
from fieldmark.world.rng import Rng

Area = tuple[float, float, float, float]
"""u0, u1, v0, v1 of a tube"""


def paint_pattern(
    pen: Pen,
    look: Appearance,
    body: Tube,
    ink: Colour,
    unit: float,
    area: Area = (0.08, 0.92, 0.08, 0.7),
) -> None:
    """The pattern of the species; `unit` is a spot's half width."""
    rng = look.rng("pattern")
    if look.is_young:
        ink = mix(ink, look.main, 0.35)
    pattern = look.species.traits["pattern"]
    if pattern in _DOTS:
        share, across, down = _DOTS[pattern]
        _dots(pen, body, ink, rng, (unit * share, area, across, down))
    elif pattern == "streaked":
        _streaks(pen, body, ink, rng, (unit, area))
    elif pattern == "barred" or (pattern == "striped" and look.species.plan.name == "mammal"):
        _bars(pen, body, ink, rng, area)
    elif pattern == "striped":
        _stripes(pen, body, ink, rng, area)


_DOTS = {"spotted": (1.0, 6, 3), "speckled": (0.42, 11, 4), "patched": (2.1, 4, 2)}
"""half width in units, and how many across and down"""


def _dots(pen: Pen, body: Tube, ink: Colour, rng: Rng, how: tuple[float, Area, int, int]) -> None:
    unit, (u0, u1, v0, v1), across, down = how
    for column in range(across):
        for row in range(down):
            if rng.chance(0.14):
                continue
            u = u0 + (u1 - u0) * (column + 0.5 + 0.5 * (row % 2) + rng.around(0.55)) / (
                across + 0.5
            )
            v = v0 + (v1 - v0) * (row + 0.5 + rng.around(0.45)) / down
            size = unit * rng.between(0.7, 1.35)
            pen.oval(body.at(u, v), (size, size * rng.between(0.7, 1.0)), ink, rng.between(0, 1))


def _streaks(pen: Pen, body: Tube, ink: Colour, rng: Rng, how: tuple[float, Area]) -> None:
    unit, (u0, u1, v0, v1) = how
    for column in range(6):
        for row in range(3):
            u = u0 + (u1 - u0) * (column + rng.between(0.1, 0.5) + 0.3 * (row % 2)) / 6
            v = v0 + (v1 - v0) * (row + 0.5 + rng.around(0.3)) / 3
            (x0, y0), (x1, y1) = body.at(u, v), body.at(u + 0.1, v + 0.02)
            half = unit * rng.between(0.22, 0.4)
            pen.blob(
                [
                    (x0, y0),
                    ((x0 + x1) / 2, (y0 + y1) / 2 - half),
                    (x1, y1),
                    ((x0 + x1) / 2, (y0 + y1) / 2 + half),
                ],
                ink,
            )


def _bars(pen: Pen, body: Tube, ink: Colour, rng: Rng, area: Area) -> None:
    u0, u1, v0, v1 = area
    count = 8
    for bar in range(count):
        u = u0 + (u1 - u0) * (bar + 0.5 + rng.around(0.3)) / count
        half = (u1 - u0) / count * rng.between(0.16, 0.34)
        bend = rng.around(0.035)
        end = v1 - (v1 - v0) * rng.between(0.0, 0.3)
        middle = (v0 + end) / 2
        pen.blob(
            [
                body.at(u - half, v0),
                body.at(u + half, v0),
                body.at(u + half + bend, middle),
                body.at(u + bend * 0.5, end),
                body.at(u - half + bend, middle),
            ],
            ink,
        )


def _stripes(pen: Pen, body: Tube, ink: Colour, rng: Rng, area: Area) -> None:
    u0, u1, v0, v1 = area
    for stripe in range(3):
        v = v0 + (v1 - v0) * (stripe + 0.5) / 3
        half = (v1 - v0) * rng.between(0.055, 0.1)
        start, stop = u0 + rng.between(0, 0.08), u1 - rng.between(0, 0.08)
        gap = rng.between(start + 0.15, stop - 0.15)
        for left, right in ((start, gap), (gap + 0.04, stop)):
            if right - left > 0.04:
                pen.blob(body.patch(left, right, v - half, v + half), ink)


def paint_markings(pen: Pen, look: Appearance, body: Tube, unit: float) -> None:
    """What only this individual carries, and what ails it."""
    main = look.main
    blotch = dark(main, 0.5) if brightness(main) > 90 else light(main, 0.45)
    scar = light(main, 0.6) if brightness(main) < 150 else (170, 110, 100)
    for mark in look.individual.markings:
        spot = body.at(mark.u, mark.v)
        if mark.kind == "scar":
            pen.oval(spot, (unit * 1.5 * mark.size, unit * 0.2), scar, mark.turn)
        elif mark.kind == "blotch":
            pen.oval(spot, (unit * 0.75 * mark.size, unit * 0.5 * mark.size), blotch, mark.turn)
    if look.morph == "mixed":
        _patches(pen, look, body, unit)
    if look.is_sick:
        _lesions(pen, look, body, unit)
    if "moulting" in look.extras:
        _gaps(pen, look, body)


def paint_eye(pen: Pen, look: Appearance, spot: Point, size: float, is_asleep: bool) -> None:
    x, y = spot
    if is_asleep or "dead" in look.extras:
        pen.stroke(
            [(x - size, y, size * 0.3), (x, y + size * 0.4, size * 0.4), (x + size, y, size * 0.3)],
            (20, 16, 18),
        )
        return
    pen.oval(spot, (size * 1.5, size * 1.5), mix(look.main, (250, 240, 220), 0.6))
    pen.oval(spot, (size, size), look.eye)
    pen.oval((x + size * 0.3, y - size * 0.35), (size * 0.32, size * 0.32), (250, 250, 250))


def _patches(pen: Pen, look: Appearance, body: Tube, unit: float) -> None:
    rng = look.rng("mixed")
    for _ in range(4):
        spot = body.at(rng.between(0.1, 0.9), rng.between(0.25, 0.75))
        size = unit * rng.between(1.5, 2.6)
        pen.oval(spot, (size, size * 0.7), look.second, rng.between(0, 1))


def _lesions(pen: Pen, look: Appearance, body: Tube, unit: float) -> None:
    rng = look.rng("lesions")
    for _ in range(7):
        spot = body.at(rng.between(0.08, 0.92), rng.between(0.15, 0.85))
        size = unit * rng.between(0.8, 1.5)
        pen.oval(spot, (size, size * 0.85), (104, 62, 50), rng.between(0, 1))
        pen.oval(spot, (size * 0.6, size * 0.45), (196, 132, 116), rng.between(0, 1))


def _gaps(pen: Pen, look: Appearance, body: Tube) -> None:
    """Ragged pale places where the old coat has gone."""
    rng = look.rng("moult")
    bald = mix(light(look.main, 0.45), (200, 180, 170), 0.4)
    for _ in range(9):
        u, v = rng.between(0.05, 0.9), rng.between(0.05, 0.85)
        ring = [
            body.at(u + rng.around(0.09) + step_u * 0.05, v + rng.around(0.1) + step_v * 0.09)
            for step_u, step_v in ((-1, 0), (-0.4, -1), (0.5, -0.8), (1, 0), (0.4, 1), (-0.6, 0.7))
        ]
        pen.facet(ring, bald)

"""Props: what else may stand in the picture, perches, nests, hands, food, cover.

Everything is drawn in the units of the animal it belongs to, with its feet at the origin.
"""

from __future__ import annotations

from fieldmark.world.colour import Colour, dark, light, mix
from fieldmark.world.draw.appearance import Appearance
from fieldmark.world.draw.pattern import paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Pen, reach, tube
from fieldmark.world.rng import Rng

_WOOD: Colour = (122, 94, 66)
_SKIN: Colour = (222, 172, 140)


def draw_behind(pen: Pen, extras: frozenset[str], rng: Rng, floor: float) -> None:
    """Things the animal stands on or in front of; `floor` is the height of its feet."""
    if "pole" in extras:
        pen.facet([(-8, floor + 3), (8, floor + 3), (10, 400), (-10, 400)], _WOOD)
        pen.facet([(-6, floor + 3), (-1, floor + 3), (-2, 400), (-8, 400)], light(_WOOD, 0.25))
        outline = [(-62, floor + 22), (62, floor + 22), (62, floor + 31), (-62, floor + 31)]
        pen.facet(outline, dark(_WOOD, 0.2))
        for x in (-52.0, 52.0):
            pen.oval((x, floor + 17), (4, 6), (190, 200, 206))
            pen.stroke(
                [(x, floor + 13, 0.8), (x + (300 if x > 0 else -300), floor + 4, 0.8)], (40, 40, 44)
            )
    if "sign" in extras:
        _sign(pen, floor)
    if "nest" in extras:
        _twigs(pen, rng, floor, range(-10, 6), 16.0)
    if "egg" in extras:
        for x in (-22.0, 0.0, 22.0):
            pen.oval((x, floor - 4), (12, 9.5), (226, 218, 196), 0.2)
            for _ in range(4):
                spot = (x + rng.around(8), floor - 4 + rng.around(7))
                pen.oval(spot, (1.5, 1.2), (120, 92, 66))
    if "in_hand" in extras:
        pen.blob(
            [
                (-62, floor + 64),
                (-46, floor + 6),
                (-12, floor - 8),
                (40, floor - 4),
                (58, floor + 18),
                (66, floor + 80),
                (70, 300),
                (-50, 300),
            ],
            _SKIN,
        )


def _sign(pen: Pen, floor: float) -> None:
    for x in (-34, 30):
        pen.facet([(x, floor + 30), (x + 6, floor + 30), (x + 6, 400), (x, 400)], (120, 116, 112))
    pen.facet(
        [(-60, floor + 2), (60, floor + 2), (60, floor + 46), (-60, floor + 46)], (40, 96, 60)
    )
    pen.facet(
        [(-57, floor + 5), (57, floor + 5), (57, floor + 43), (-57, floor + 43)], (236, 236, 228)
    )
    for row, width in ((12, 44), (22, 36), (32, 40)):
        pen.facet(
            [
                (-width, floor + row),
                (width, floor + row),
                (width, floor + row + 4),
                (-width, floor + row + 4),
            ],
            (46, 60, 54),
        )


def _twigs(pen: Pen, rng: Rng, floor: float, rows: range, deep: float) -> None:
    for row in rows:
        y = floor + row
        wide = 50 - abs(row + 2) * 1.2
        x = rng.around(wide * 0.4)
        tilt = rng.around(deep * 0.4)
        paint = mix((126, 98, 62), (84, 62, 40), rng.between(0, 1))
        pen.stroke(
            [
                (x - wide * 0.8, y - tilt, 1.2),
                (x, y + deep * 0.35, 2.2),
                (x + wide * 0.8, y + tilt, 1.2),
            ],
            paint,
        )


def draw_front(
    pen: Pen, extras: frozenset[str], rng: Rng, at: tuple[float, Point], is_tall: bool
) -> None:
    """Things that cover part of the animal or that it reaches for; `at` holds floor and mouth."""
    floor, mouth = at
    grip = 1.0 if is_tall else 0.5
    if "nest" in extras:
        _twigs(pen, rng, floor, range(-6, 22), 20.0)
    if "in_hand" in extras:
        for finger, (x, y) in enumerate(
            ((-40.0, -26.0), (-20.0, -33.0), (2.0, -33.0), (24.0, -26.0))
        ):
            shade = mix(_SKIN, dark(_SKIN, 0.25), finger / 4)
            pen.stroke(
                [
                    (x - 2, floor + 22, 9.5),
                    (x, floor + y * grip * 0.4, 9.0),
                    (x + 8, floor + y * grip, 7.0),
                ],
                shade,
            )
            pen.oval((x + 9, floor + y * grip - 1), (4.5, 3.6), (240, 204, 186), 0.1)
    if "flower" in extras:
        _flower(pen, mouth, 24.0, rng)


def _flower(pen: Pen, spot: Point, size: float, rng: Rng) -> None:
    x, y = spot[0] + size * 0.75, spot[1]
    pen.stroke([(x, y, 1.8), (x + 6, y + 60, 2.4), (x + 2, y + 260, 3.0)], (78, 132, 56))
    paint = rng.choice(((226, 70, 120), (240, 150, 40), (236, 80, 60), (180, 90, 200)))
    for petal in range(7):
        turn = petal / 7
        end = reach((x, y), size * 0.62, turn)
        pen.oval(end, (size * 0.42, size * 0.24), dark(paint, 0.16) if petal % 2 else paint, -turn)
    pen.oval((x, y), (size * 0.28, size * 0.28), (246, 206, 70))


def draw_food(pen: Pen, mouth: Point, plan: str) -> None:
    """What an animal eats or carries: a worm, a leaf or a crumb, at its mouth."""
    x, y = mouth
    if plan in ("mammal", "whale", "lizard"):
        outline = [(x - 4, y), (x + 4, y - 7), (x + 14, y - 3), (x + 10, y + 8), (x, y + 6)]
        pen.blob(outline, (176, 84, 66))
        pen.oval((x + 7, y), (3, 3), (226, 204, 180))
    else:
        pen.stroke(
            [(x - 6, y + 10, 1.6), (x - 1, y + 1, 2.2), (x + 5, y + 4, 2.2), (x + 8, y + 14, 1.4)],
            (206, 92, 104),
        )


def draw_bush(pen: Pen, mouth: Point, rng: Rng) -> None:
    """Leaves at the height of the mouth, to browse on."""
    x, y = mouth
    pen.stroke([(x + 60, y + 190, 4.0), (x + 40, y + 50, 3.0), (x + 14, y - 4, 1.5)], _WOOD)
    for _ in range(26):
        spot = (x + 30 + rng.around(34), y + rng.around(44) + 4)
        green = mix((74, 128, 52), (40, 84, 36), rng.between(0, 1))
        pen.oval(spot, (9, 4.4), green, rng.between(0, 1))


def draw_feather(pen: Pen, look: Appearance) -> None:
    """One feather in the colours and pattern of the species, lying along x."""
    vane = tube([(-46, 0, 4), (-30, -1, 13), (0, -3, 16), (30, -2, 13), (52, 2, 3)])
    pen.blob(vane.outline(), look.main)
    pen.blob(vane.patch(0.0, 0.35, 0.05, 0.95, 3), light(look.second, 0.2))
    paint_pattern(
        pen,
        look,
        vane,
        look.contrast if look.contrast != look.main else look.second,
        3.4,
        (0.2, 0.95, 0.08, 0.92),
    )
    for u in (0.3, 0.62):
        outline = [vane.at(u, -0.02), vane.at(u - 0.05, 0.3), vane.at(u - 0.02, -0.02)]
        pen.facet(outline, dark(look.main, 0.4))
    pen.stroke([(-74, 4, 1.8), (-46, 0, 1.6), (0, -3, 1.2), (50, 2, 0.5)], (236, 228, 206))


def draw_cover(pen: Pen, rng: Rng, size_px: int, box: tuple[int, int, int, int]) -> None:
    """Leaves and stalks between camera and animal, in pixels, over about half of its box."""
    left, top, wide, tall = box
    right, bottom = left + wide, top + tall
    green = rng.choice(((58, 96, 44), (88, 118, 52), (110, 116, 60), (70, 86, 50)))
    for stalk in range(5):
        x = left + wide * (stalk + rng.between(0.1, 0.9)) / 5
        lean = rng.around(wide * 0.3)
        half = max(2.0, wide * rng.between(0.02, 0.05))
        paint = mix(green, dark(green, 0.5), rng.between(0, 1))
        pen.blob(
            [
                (x - half, size_px + 20.0),
                (x + lean * 0.5 - half, (top + bottom) / 2),
                (x + lean, top - 14),
                (x + lean * 0.5 + half, (top + bottom) / 2),
                (x + half, size_px + 20.0),
            ],
            paint,
        )
    for _ in range(9):
        spot = (rng.between(left, right), rng.between(top, bottom))
        size = wide * rng.between(0.09, 0.16)
        turn = rng.between(0, 1)
        paint = mix(green, light(green, 0.25), rng.between(0, 1))
        pen.oval(spot, (size, size * 0.42), dark(paint, 0.3), turn)
        pen.oval((spot[0], spot[1] - 1), (size * 0.96, size * 0.36), paint, turn)


def draw_flies(pen: Pen, rng: Rng, centre: Point) -> None:
    for _ in range(5):
        x, y = centre[0] + rng.around(60), centre[1] + rng.around(36)
        pen.oval((x, y), (2.4, 1.8), (22, 22, 26))
        pen.oval((x + 1, y - 2), (2.2, 1.0), (190, 196, 200), 0.1, 150)

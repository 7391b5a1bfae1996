"""Beetles, butterflies and spiders: drawn from above, looking right."""

from __future__ import annotations

from fieldmark.world.colour import Colour, dark, light, mix
from fieldmark.world.draw.appearance import Anchors, Appearance, Pose
from fieldmark.world.draw.pattern import paint_markings, paint_pattern
from fieldmark.world.draw.raster import Point
from fieldmark.world.draw.shapes import Pen, Tube, tube
from fieldmark.world.rng import cosine, sine

_SIDES = (-1.0, 1.0)


def _half(body: Tube, side: float) -> Tube:
    """One side of a symmetric body, from its edge to the middle line."""
    edge = body.top if side < 0 else body.bottom
    middle = [
        ((ax + bx) / 2, (ay + by) / 2)
        for (ax, ay), (bx, by) in zip(body.top, body.bottom, strict=True)
    ]
    return Tube(edge, tuple(middle))


def _legs(
    pen: Pen,
    look: Appearance,
    pose: Pose,
    hips: tuple[tuple[float, float, float], ...],
    paint: Colour,
) -> None:
    """One leg a side for each hip (x, length, direction in turns); neighbours move in turn."""
    tucked = 0.45 if pose.crouch > 0.5 else 1.0
    for index, (x, length, turn) in enumerate(hips):
        for side in _SIDES:
            beat = pose.phase + 0.5 * ((index + (side > 0)) % 2)
            swing = 0.05 * pose.stride * sine(beat) + 0.012 * sine(beat * 3 + index * 0.3)
            far = length * look.form["limb"] * tucked
            knee = (
                x + far * 0.55 * cosine(turn + swing),
                side * (8 + far * 0.5 * sine(turn + swing)),
            )
            foot = (
                knee[0] + far * 0.6 * cosine(turn + swing * 2 + (0.06 if turn > 0.25 else -0.06)),
                knee[1] + side * far * 0.55 * sine(turn + 0.02),
            )
            pen.stroke([(x, side * 5, 2.6), (*knee, 2.1), (*foot, 0.9)], paint)
            if look.species.has("leg_rings"):
                pen.oval(((x + knee[0]) / 2, (side * 5 + knee[1]) / 2), (2.6, 2.6), look.second)
                pen.oval(
                    ((foot[0] + knee[0]) / 2, (foot[1] + knee[1]) / 2), (2.1, 2.1), look.second
                )


def _feelers(pen: Pen, start: Point, length: float, pose: Pose, paint: Colour) -> None:
    x, y = start
    for side in _SIDES:
        wave = 3 * sine(pose.phase + 0.2 * side) + 6 * max(0.0, pose.neck - 0.5)
        pen.stroke(
            [
                (x, side * y, 1.2),
                (x + length * 0.55, side * (y + length * 0.3), 1.0),
                (x + length * 0.85, side * (y + length * 0.55) - wave, 0.8),
            ],
            paint,
        )


def draw_beetle(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    form, has = look.form, look.species.has
    horn = dark(mix(look.second, look.main, 0.3), 0.45)
    _legs(pen, look, pose, ((14.0, 26.0, 0.12), (2.0, 27.0, 0.25), (-12.0, 32.0, 0.38)), horn)
    head = 9.5 * form["head"]
    _feelers(
        pen, (34.0, 4.0), 20 * form["snout"] * (1.7 if has("long_antennae") else 1.0), pose, horn
    )
    if has("horns"):
        for side in _SIDES:
            pen.stroke([(36, side * 3, 3.0), (48, side * 10, 2.4), (56, side * 4, 0.8)], horn)
    pen.oval((35.0 + 4 * max(0.0, pose.neck - 0.5), 0.0), (head, head * 1.05), dark(look.main, 0.5))
    for side in _SIDES:
        pen.oval((38.0, side * head * 0.75), (2.6, 2.6), look.eye)
    wide = form["stout"]
    shield = tube([(14, 0, 15 * wide), (24, 0, 14.5 * wide), (33, 0, 9 * wide)])
    pen.blob(shield.outline(), dark(look.main, 0.28))
    if has("collar"):
        pen.blob(shield.patch(0.55, 0.85, 0.0, 1.0, 2), look.second)
    cases = tube(
        [
            (-42, 0, 3),
            (-37, 0, 12 * wide),
            (-22, 0, 20 * wide),
            (-4, 0, 21.5 * wide),
            (10, 0, 18 * wide),
            (16, 0, 10 * wide),
        ]
    )
    pen.blob(cases.outline(), look.main)
    for side in _SIDES:
        half = _half(cases, side)
        paint_pattern(pen, look, half, look.second, 3.6 * wide, (0.12, 0.92, 0.2, 0.92))
        pen.blob(half.patch(0.25, 0.85, 0.3, 0.42), light(look.main, 0.45), 90)
    paint_markings(pen, look, cases, 3.0)
    pen.stroke([(-41, 0, 0.9), (14, 0, 0.9)], dark(look.main, 0.6))
    if "tag" in look.extras:
        pen.oval((24, 0), (4.5, 4.5), (250, 120, 20))
    return Anchors((46.0, 0.0), (-4.0, 0.0))


def _caterpillar(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    segments = 9
    for segment in range(segments):
        x = -40 + 10 * segment
        y = 7 * sine(segment / 7 + pose.phase)
        half = 9.5 * (0.8 + 0.2 * look.form["stout"])
        for side in _SIDES:
            pen.stroke([(x, y + side * 7, 1.6), (x + 2, y + side * 13, 0.7)], dark(look.main, 0.5))
        pen.oval(
            (x, y), (8.0, half), look.main if segment % 2 else mix(look.main, look.second, 0.55)
        )
        pen.oval((x, y - 2), (2.4, 2.4), look.second)
    y = 7 * sine(segments / 7 + pose.phase)
    pen.oval((50, y), (8.0, 8.0), dark(look.main, 0.5))
    body = tube([(-40, 0, 8.0), (0, 0, 8.0), (46, 0, 8.0)])
    paint_markings(pen, look, body, 2.4)
    return Anchors((58.0, y), (0.0, 0.0))


def draw_butterfly(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    if look.is_young:
        return _caterpillar(pen, look, pose)
    open_ = 0.42 if pose.crouch > 0.5 else 0.9 + 0.1 * sine(pose.phase)
    if pose.stride > 0.3:
        open_ = 0.72 + 0.26 * sine(pose.phase * 2) - 0.1 * pose.stride
    for side in _SIDES:
        _wings(pen, look, side, open_)
    body = dark(mix(look.second, look.main, 0.25), 0.5)
    wide = look.form["stout"]
    _feelers(pen, (22.0, 2.0), 26 * look.form["snout"], pose, body)
    pen.stroke(
        [
            (-34, 0, 1.5),
            (-20, 0, 4.0 * wide),
            (2, 0, 4.4 * wide),
            (12, 0, 6.0 * wide),
            (20, 0, 5.0),
            (25, 0, 3.2),
        ],
        body,
    )
    if look.species.has("collar"):
        pen.oval((18, 0), (2.2, 5.0), look.second)
    if "tag" in look.extras:
        pen.oval((0, 12 * open_), (5, 5), (250, 250, 250))
    return Anchors((34.0, 0.0), (0.0, 0.0))


def _wings(pen: Pen, look: Appearance, side: float, open_: float) -> None:
    has, size = look.species.has, look.form["limb"]
    border = dark(look.second, 0.15)
    tail = 1.0 + 0.6 * (look.form["tail"] - 1)

    def at(x: float, y: float) -> Point:
        return x * size, side * y * size * open_

    hind = tube(
        [
            (*at(2, 4), 3.0),
            (*at(-10, 18), 15.0 * size),
            (*at(-20, 34), 17 * size * tail),
            (*at(-30, 44), 8 * size),
        ]
    )
    fore = tube(
        [
            (*at(12, 3), 3.0),
            (*at(16, 22), 13.0 * size),
            (*at(22, 42), 19 * size),
            (*at(26, 58), 13 * size),
            (*at(27, 65), 3.0),
        ]
    )
    if has("tail_streamers"):
        pen.stroke([(*at(-28, 40), 6.0), (*at(-48, 42), 2.4), (*at(-62, 46), 3.4)], border)
    for wing, rim in ((hind, 2.6), (fore, 3.2)):
        pen.blob(wing.outline(), border)
        inner = Tube(
            tuple(_pulled(wing.top, wing.bottom, rim)), tuple(_pulled(wing.bottom, wing.top, rim))
        )
        wide = 0.82 if look.species.traits["pattern"] == "bordered" else 0.93
        pen.blob(inner.patch(0.02, wide, 0.0, 1.0, 5), look.main)
        paint_pattern(pen, look, inner, border, 3.4, (0.3, 0.9, 0.12, 0.88))
        for v in (0.3, 0.5, 0.7):
            pen.blob(inner.patch(0.05, 0.9, v - 0.012, v + 0.012, 2), dark(look.main, 0.35))
    if has("wing_bar"):
        pen.blob(fore.patch(0.52, 0.62, 0.08, 0.92, 2), light(look.second, 0.55))
    if has("eyespots"):
        spot = hind.at(0.62, 0.5)
        pen.oval(spot, (6.5 * size, 6.5 * size * (0.4 + 0.6 * open_)), light(look.main, 0.6))
        pen.oval(spot, (4.0 * size, 4.0 * size * (0.4 + 0.6 * open_)), (24, 20, 30))
    paint_markings(pen, look, fore if side < 0 else hind, 2.8)


def _pulled(edge: tuple[Point, ...], towards: tuple[Point, ...], share: float) -> list[Point]:
    part = share * 0.04
    return [
        (ax + (bx - ax) * part, ay + (by - ay) * part)
        for (ax, ay), (bx, by) in zip(edge, towards, strict=True)
    ]


def draw_spider(pen: Pen, look: Appearance, pose: Pose) -> Anchors:
    form, has = look.form, look.species.has
    leg = dark(look.main, 0.22)
    _legs(
        pen,
        look,
        pose,
        ((20.0, 46.0, 0.09), (15.0, 40.0, 0.19), (9.0, 38.0, 0.3), (3.0, 48.0, 0.41)),
        leg,
    )
    wide = form["stout"]
    belly = tube(
        [(-44, 0, 3), (-36, 0, 13 * wide), (-20, 0, 19 * wide), (-6, 0, 15 * wide), (3, 0, 5)]
    )
    pen.blob(belly.outline(), look.main)
    for side in _SIDES:
        paint_pattern(
            pen, look, _half(belly, side), look.second, 3.0 * wide, (0.15, 0.9, 0.2, 0.92)
        )
    if has("cross"):
        pale = light(look.second, 0.5)
        pen.stroke([(-38, 0, 2.0), (-8, 0, 2.2)], pale)
        pen.stroke([(-20, -10 * wide, 1.8), (-20, 10 * wide, 1.8)], pale)
    if has("horns"):
        for side in _SIDES:
            outline = [(-12, side * 12 * wide), (-20, side * 22 * wide), (-26, side * 14 * wide)]
            pen.facet(outline, dark(look.main, 0.3))
    paint_markings(pen, look, belly, 2.6)
    head = 10.5 * form["head"]
    pen.oval((13.0, 0.0), (head * 1.25, head), dark(look.main, 0.18))
    if has("collar"):
        pen.oval((6.0, 0.0), (3.0, head * 0.95), look.second)
    for side in _SIDES:
        pen.stroke([(22, side * 4, 3.0), (29, side * 3.5, 1.4)], dark(look.main, 0.45))
        for x, y, size in ((21.0, 2.6, 1.7), (18.0, 5.0, 1.3), (16.0, 2.2, 1.0)):
            pen.oval((x, side * y), (size * 1.3, size * 1.3), look.eye)
            pen.oval((x + 0.4, side * y - 0.4), (size * 0.4, size * 0.4), (240, 240, 240))
    return Anchors((32.0, 0.0), (-18.0, 0.0))
